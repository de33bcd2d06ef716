"""MobileNetV2 with and without lambda layers (Table 17)."""

from typing import Any, Unpack

import keras

from lambda_keras.applications.arguments import (
    LambdaMobileNetArguments,
    MobileNetArguments,
    Pooling,
    Shape,
    Weights,
)
from lambda_keras.applications.build import build, document

__all__ = [
    "LambdaMobileNetV2",
    "MobileNetV2",
]


def MobileNetV2(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "mobilenet_v2",
    **arguments: Unpack[MobileNetArguments],
) -> keras.Model:  # fmt: skip
    """MobileNetV2 (Sandler et al., CVPR 2018), the baseline of Table 17; c5 has 320 channels.

    3,504,872 parameters, 0.602 GFLOPs for an image of 224x224.
    """
    return build("mobilenet_v2", **locals())


def LambdaMobileNetV2(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "lambda_mobilenet_v2",
    **arguments: Unpack[LambdaMobileNetArguments],
) -> keras.Model:  # fmt: skip
    """MobileNetV2 with two lightweight lambda blocks (Table 17 and D.3.2).

    3,236,824 parameters, 0.577 GFLOPs for an image of 224x224.

    The 10th and the 16th of the 17 inverted bottlenecks have a lambda layer (5x5 scope, k = 32) in
    place of the depthwise convolution; their first pointwise convolution keeps the number of
    channels. `expand_lambda=False` leaves it out.
    """
    return build("lambda_mobilenet_v2", **locals())


document(__all__, globals())
