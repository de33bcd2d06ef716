"""MobileNetV2, plain and with lightweight lambda layers."""

import math
from dataclasses import replace

import keras

from lambda_keras.applications.common import Shape, Weights, build
from lambda_keras.layers.arguments import check_bools, check_number
from lambda_keras.models import specs


def MobileNetV2(
    include_top: bool = True,
    weights: Weights = None,
    input_tensor=None,
    input_shape: Shape | None = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation="softmax",
    name: str = "mobilenet_v2",
    *,
    dropout_rate: float = 0.0,
    alpha: float = 1.0,
) -> keras.Model:
    """MobileNetV2 (Sandler et al., CVPR 2018), the baseline of Table 17: 3.50 M parameters.

    The arguments before `alpha` are those of `LambdaResNet50`; c5 has stride 32 and 320 channels.

    Args:
        alpha: float, width of the network in parts of the published one. Defaults to `1.0`.
    """
    return _build(
        replace(specs.MOBILENET_V2, alpha=alpha, dropout_rate=dropout_rate),
        "mobilenet_v2",
        include_top,
        weights,
        input_tensor,
        input_shape,
        pooling,
        classes,
        classifier_activation,
        name,
    )


def LambdaMobileNetV2(
    include_top: bool = True,
    weights: Weights = None,
    input_tensor=None,
    input_shape: Shape | None = None,
    pooling: str | None = None,
    classes: int = 1000,
    classifier_activation="softmax",
    name: str = "lambda_mobilenet_v2",
    *,
    dropout_rate: float = 0.0,
    alpha: float = 1.0,
    expand_lambda: bool = True,
) -> keras.Model:
    """MobileNetV2 with two lightweight lambda blocks (Table 17 and D.3.2): 3.24 M parameters.

    The 10th and the 16th of the 17 inverted bottlenecks have a lambda layer (5x5 scope, k = 32) in
    place of the depthwise convolution, and do not expand. The arguments before `alpha` are those
    of `LambdaResNet50`.

    Args:
        alpha: float, width of the network in parts of the published one. Defaults to `1.0`.
        expand_lambda: bool, whether these two blocks have their first pointwise convolution, as
            the text says. Without it they count the 3.21 M that Table 17 says.
            Defaults to `True`.
    """
    return _build(
        replace(
            specs.LAMBDA_MOBILENET_V2,
            alpha=alpha,
            expand_lambda=expand_lambda,
            dropout_rate=dropout_rate,
        ),
        "lambda_mobilenet_v2",
        include_top,
        weights,
        input_tensor,
        input_shape,
        pooling,
        classes,
        classifier_activation,
        name,
    )


def _build(spec: specs.MobileNetSpec, *arguments) -> keras.Model:
    check_bools(expand_lambda=spec.expand_lambda)
    check_number(lambda x: 0 < x < math.inf, "a positive number", alpha=spec.alpha)
    return build(spec, *arguments)
