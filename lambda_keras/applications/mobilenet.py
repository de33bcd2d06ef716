"""MobileNetV2, plain and with lightweight lambda layers."""

from dataclasses import dataclass

from lambda_keras.applications.common import Arguments, constructor
from lambda_keras.models import specs

__all__ = ["LambdaMobileNetV2", "MobileNetV2"]


@dataclass(frozen=True, kw_only=True)
class MobileNetArguments(Arguments):
    """Arguments of MobileNetV2.

    Args:
        alpha: float, width of the network in parts of the published one.
    """

    alpha: float = 1.0


@dataclass(frozen=True, kw_only=True)
class LambdaMobileNetArguments(specs.LambdaSpec, MobileNetArguments):
    """Arguments of MobileNetV2 with lambda layers.

    Args:
        expand_lambda: bool, whether the blocks with a lambda layer have their first pointwise
            convolution, as the text says. Without it they count the 3.21 M that Table 17 says.
    """

    expand_lambda: bool = True


@constructor(MobileNetArguments, "mobilenet_v2", specs.MOBILENET_V2)
def MobileNetV2():
    """MobileNetV2 (Sandler et al., CVPR 2018), the baseline of Table 17: 3.50 M parameters.

    Its c5 has 320 channels.
    """


@constructor(LambdaMobileNetArguments, "lambda_mobilenet_v2", specs.LAMBDA_MOBILENET_V2)
def LambdaMobileNetV2():
    """MobileNetV2 with two lightweight lambda blocks (Table 17 and D.3.2): 3.24 M parameters.

    The 10th and the 16th of the 17 inverted bottlenecks have a lambda layer (5x5 scope, k = 32) in
    place of the depthwise convolution, and do not expand.
    """
