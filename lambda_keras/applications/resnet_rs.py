"""ResNet-RS, the baselines of Table 14; `squeeze_excitation=False` builds the smaller ones."""

from typing import Any, Unpack

import keras

from lambda_keras.applications.arguments import Pooling, ResNetArguments, Shape, Weights
from lambda_keras.applications.build import build, document

__all__ = [
    "ResNetRS50",
    "ResNetRS101",
    "ResNetRS152",
    "ResNetRS200",
    "ResNetRS270",
    "ResNetRS350",
    "ResNetRS420",
]


def ResNetRS50(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "resnet_rs50",
    **arguments: Unpack[ResNetArguments],
) -> keras.Model:  # fmt: skip
    """ResNet-RS-50, the baseline of Table 14.

    Blocks of c2 to c5: 3, 4, 6, 3.
    35,691,912 parameters, 4.557 GFLOPs for an image of 160x160.
    """
    return build("resnet_rs50", **locals())


def ResNetRS101(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "resnet_rs101",
    **arguments: Unpack[ResNetArguments],
) -> keras.Model:  # fmt: skip
    """ResNet-RS-101, the baseline of Table 14.

    Blocks of c2 to c5: 3, 4, 23, 3.
    63,618,696 parameters, 16.351 GFLOPs for an image of 224x224.
    """
    return build("resnet_rs101", **locals())


def ResNetRS152(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "resnet_rs152",
    **arguments: Unpack[ResNetArguments],
) -> keras.Model:  # fmt: skip
    """ResNet-RS-152, the baseline of Table 14.

    Blocks of c2 to c5: 3, 8, 36, 3.
    86,621,576 parameters, 31.056 GFLOPs for an image of 256x256.
    """
    return build("resnet_rs152", **locals())


def ResNetRS200(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "resnet_rs200",
    **arguments: Unpack[ResNetArguments],
) -> keras.Model:  # fmt: skip
    """ResNet-RS-200, the baseline of Table 14.

    Blocks of c2 to c5: 3, 24, 36, 3.
    93,209,992 parameters, 62.758 GFLOPs for an image of 320x320.
    """
    return build("resnet_rs200", **locals())


def ResNetRS270(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "resnet_rs270",
    **arguments: Unpack[ResNetArguments],
) -> keras.Model:  # fmt: skip
    """ResNet-RS-270, the baseline of Table 14.

    Blocks of c2 to c5: 4, 29, 53, 4.
    129,861,448 parameters, 53.9 GFLOPs for an image of 256x256.
    """
    return build("resnet_rs270", **locals())


def ResNetRS350(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "resnet_rs350",
    **arguments: Unpack[ResNetArguments],
) -> keras.Model:  # fmt: skip
    """ResNet-RS-350, the baseline of Table 14.

    Blocks of c2 to c5: 4, 36, 72, 4.
    163,956,168 parameters, 107.367 GFLOPs for an image of 320x320.
    """
    return build("resnet_rs350", **locals())


def ResNetRS420(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "resnet_rs420",
    **arguments: Unpack[ResNetArguments],
) -> keras.Model:  # fmt: skip
    """ResNet-RS-420, the baseline of Table 14.

    Blocks of c2 to c5: 4, 44, 87, 4.
    191,891,656 parameters, 127.885 GFLOPs for an image of 320x320.
    """
    return build("resnet_rs420", **locals())


document(__all__, globals())
