"""ResNet-50 (v1) of the ablations, and its baselines (Tables 3, 4 and 9 to 13)."""

from typing import Any, Unpack

import keras

from lambda_keras.applications.arguments import (
    MixerResNetArguments,
    Pooling,
    ResNetArguments,
    Shape,
    Weights,
)
from lambda_keras.applications.build import build, document

__all__ = [
    "ResNet50",
    "ResNet50DoubleAttention",
    "ResNet50SE",
]


def ResNet50(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "resnet50",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """ResNet-50 (v1) with lambda layers in place of all 3x3 convolutions of some stages.

    Blocks of c2 to c5: 3, 4, 6, 3.
    25,557,032 parameters, 8.178 GFLOPs for an image of 224x224.

    The networks of the ablations (Tables 3, 4 and 9-13): `placement="CCCC"` is the baseline of the
    paper, `"LLLL"` its lambda network.
    """
    return build("resnet50", **locals())


def ResNet50SE(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "resnet50_se",
    **arguments: Unpack[ResNetArguments],
) -> keras.Model:  # fmt: skip
    """ResNet-50 with squeeze-and-excitation, Table 3's channel attention.

    Blocks of c2 to c5: 3, 4, 6, 3.
    28,088,024 parameters, 8.183 GFLOPs for an image of 224x224.
    """
    return build("resnet50_se", **locals())


def ResNet50DoubleAttention(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "resnet50_double_attention",
    **arguments: Unpack[ResNetArguments],
) -> keras.Model:  # fmt: skip
    """ResNet-50 with double attention, Table 3's linear attention of Chen et al. (2018).

    Blocks of c2 to c5: 3, 4, 6, 3.
    32,915,496 parameters, 13.316 GFLOPs for an image of 224x224.
    """
    return build("resnet50_double_attention", **locals())


document(__all__, globals())
