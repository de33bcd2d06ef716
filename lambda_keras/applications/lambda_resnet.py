"""LambdaResNets: ResNet-RS with lambda layers in c5 and some of c4 (Table 18).

`placement="CCLL"` puts them in all of c4 and c5 (Table 14).

The stem is ResNet-RS' own; a block is a 1x1 convolution, a 3x3 convolution or a lambda layer, and
a 1x1 convolution (`lambda_keras.models.resnet.build_resnet`). Every constructor builds the row of
its name in `lambda_keras.models.specs.NETWORKS`; `locals()` are its arguments.
"""

from typing import Any, Unpack

import keras

from lambda_keras.applications.arguments import (
    MixerResNetArguments,
    Pooling,
    Shape,
    SmallResNetArguments,
    Weights,
)
from lambda_keras.applications.build import build, document

__all__ = [
    "LambdaResNet14",
    "LambdaResNet50",
    "LambdaResNet101",
    "LambdaResNet152",
    "LambdaResNet200",
    "LambdaResNet270",
    "LambdaResNet350",
    "LambdaResNet420",
]


def LambdaResNet14(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int | None = None,
    classifier_activation: Any = "softmax", name: str = "lambda_resnet14",
    **arguments: Unpack[SmallResNetArguments],
) -> keras.Model:  # fmt: skip
    """A small LambdaResNet for images of about 32 pixels; not in the paper. Strides are 1 to 8.

    Blocks of c2 to c5: 1, 1, 1, 1; lambda layers in all of c4 and all of c5.
    855,544 parameters, 0.064 GFLOPs for an image of 32x32. `classes=None`: as many as the
    weights have (10 with `weights="fashion_mnist"`), else 1000.
    """
    return build("lambda_resnet14", **locals())


def LambdaResNet50(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "lambda_resnet50",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """LambdaResNet-50 (Table 18).

    Blocks of c2 to c5: 3, 4, 6, 3; lambda layers in block 3 of c4 and all of c5.
    18,963,272 parameters, 4.18 GFLOPs for an image of 160x160.
    """
    return build("lambda_resnet50", **locals())


def LambdaResNet101(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "lambda_resnet101",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """LambdaResNet-101 (Table 18).

    Blocks of c2 to c5: 3, 4, 23, 3; lambda layers in blocks 6, 12, 18 of c4 and all of c5.
    36,866,920 parameters, 11.285 GFLOPs for an image of 192x192.
    """
    return build("lambda_resnet101", **locals())


def LambdaResNet152(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "lambda_resnet152",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """LambdaResNet-152 (Table 18).

    Blocks of c2 to c5: 3, 8, 36, 3; lambda layers in blocks 5, 10, 15, 20, 25, 30 of c4 and all of
    c5.
    51,404,696 parameters, 29.632 GFLOPs for an image of 256x256.
    """
    return build("lambda_resnet152", **locals())


def LambdaResNet200(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "lambda_resnet200",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """LambdaResNet-200 (Table 18).

    Blocks of c2 to c5: 3, 24, 36, 3; lambda layers in blocks 5, 10, 15, 20, 25, 30 of c4 and all of
    c5.
    57,993,112 parameters, 61.535 GFLOPs for an image of 320x320.
    """
    return build("lambda_resnet200", **locals())


def LambdaResNet270(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "lambda_resnet270",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """LambdaResNet-270 (Table 18).

    Blocks of c2 to c5: 4, 29, 53, 4; lambda layers in blocks 8, 16, 24, 32, 40, 48 of c4 and all of
    c5.
    81,366,248 parameters, 52.186 GFLOPs for an image of 256x256.
    """
    return build("lambda_resnet270", **locals())


def LambdaResNet350(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "lambda_resnet350",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """LambdaResNet-350 (Table 18).

    Blocks of c2 to c5: 4, 36, 72, 4; lambda layers in blocks 10, 20, 30, 40, 50, 60 of c4 and all
    of c5.
    105,475,176 parameters, 105.697 GFLOPs for an image of 320x320.
    """
    return build("lambda_resnet350", **locals())


def LambdaResNet420(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "lambda_resnet420",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """LambdaResNet-420 (Table 18).

    Blocks of c2 to c5: 4, 44, 87, 4; lambda layers in blocks 10, 20, 30, 40, 50, 60, 70, 80 of c4
    and all of c5.
    124,438,664 parameters, 125.984 GFLOPs for an image of 320x320.
    """
    return build("lambda_resnet420", **locals())


document(__all__, globals())
