"""MobileNetV2, plain and with lightweight lambda layers.

The arguments that a constructor does not show itself are those of
`lambda_keras.applications.common.build`.
"""

import keras

from lambda_keras.applications.common import build

__all__ = ["LambdaMobileNetV2", "MobileNetV2"]


def MobileNetV2(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """MobileNetV2 (Sandler et al., CVPR 2018), the baseline of Table 17.

    Its c5 has 320 channels.
    """
    return build("mobilenet_v2", include_top, weights, *args, **kwargs)


def LambdaMobileNetV2(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """MobileNetV2 with two lightweight lambda blocks (Table 17 and D.3.2).

    The 10th and the 16th of the 17 inverted bottlenecks have a lambda layer (5x5 scope, k = 32) in
    place of the depthwise convolution, and do not expand.
    """
    return build("lambda_mobilenet_v2", include_top, weights, *args, **kwargs)
