"""LambdaResNets, MobileNetV2, their baselines and networks with attention, by name.

Every constructor builds a row of `lambda_keras.models.specs.NETWORKS`. The arguments that it does
not show itself are those of `lambda_keras.applications.common.build`. Networks of timm are timm's
layer by layer, so that timm's weights give timm's outputs.
"""

import keras

from lambda_keras.applications.common import build
from lambda_keras.models.specs import ROWS

__all__ = list(dict.fromkeys(row.constructor for row in ROWS))  # pyright: ignore[reportUnsupportedDunderAll]


def LambdaResNet14(
    include_top=True, weights=None, *args, placement="CCLL", **kwargs
) -> keras.Model:
    """A small LambdaResNet for images of some 32 pixels; not in the paper. Strides are 1 to 8."""
    return build("lambda_resnet14", include_top, weights, *args, placement=placement, **kwargs)


def LambdaResNet50(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-50 (Table 18)."""
    return build("lambda_resnet50", include_top, weights, *args, **kwargs)


def LambdaResNet101(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-101 (Table 18)."""
    return build("lambda_resnet101", include_top, weights, *args, **kwargs)


def LambdaResNet152(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-152 (Table 18)."""
    return build("lambda_resnet152", include_top, weights, *args, **kwargs)


def LambdaResNet200(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-200 (Table 18)."""
    return build("lambda_resnet200", include_top, weights, *args, **kwargs)


def LambdaResNet270(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-270 (Table 18)."""
    return build("lambda_resnet270", include_top, weights, *args, **kwargs)


def LambdaResNet350(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-350 (Table 18)."""
    return build("lambda_resnet350", include_top, weights, *args, **kwargs)


def LambdaResNet420(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-420 (Table 18)."""
    return build("lambda_resnet420", include_top, weights, *args, **kwargs)


def LambdaResNet50C4(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-50, all of c4 and c5 lambda layers (Tables 14, 15)."""
    return build("lambda_resnet50_c4", include_top, weights, *args, **kwargs)


def LambdaResNet101C4(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-101, all of c4 and c5 lambda layers (Tables 14, 15)."""
    return build("lambda_resnet101_c4", include_top, weights, *args, **kwargs)


def LambdaResNet152C4(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-152, all of c4 and c5 lambda layers (Tables 14, 15)."""
    return build("lambda_resnet152_c4", include_top, weights, *args, **kwargs)


def LambdaResNet200C4(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-200, all of c4 and c5 lambda layers (Tables 14, 15)."""
    return build("lambda_resnet200_c4", include_top, weights, *args, **kwargs)


def LambdaResNet270C4(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-270, all of c4 and c5 lambda layers (Tables 14, 15)."""
    return build("lambda_resnet270_c4", include_top, weights, *args, **kwargs)


def LambdaResNet350C4(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-350, all of c4 and c5 lambda layers (Tables 14, 15)."""
    return build("lambda_resnet350_c4", include_top, weights, *args, **kwargs)


def LambdaResNet420C4(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """LambdaResNet-420, all of c4 and c5 lambda layers (Tables 14, 15)."""
    return build("lambda_resnet420_c4", include_top, weights, *args, **kwargs)


def ResNetRS50(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-50, the baseline of Table 14."""
    return build("resnet_rs50", include_top, weights, *args, **kwargs)


def ResNetRS101(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-101, the baseline of Table 14."""
    return build("resnet_rs101", include_top, weights, *args, **kwargs)


def ResNetRS152(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-152, the baseline of Table 14."""
    return build("resnet_rs152", include_top, weights, *args, **kwargs)


def ResNetRS200(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-200, the baseline of Table 14."""
    return build("resnet_rs200", include_top, weights, *args, **kwargs)


def ResNetRS270(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-270, the baseline of Table 14."""
    return build("resnet_rs270", include_top, weights, *args, **kwargs)


def ResNetRS350(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-350, the baseline of Table 14."""
    return build("resnet_rs350", include_top, weights, *args, **kwargs)


def ResNetRS420(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-420, the baseline of Table 14."""
    return build("resnet_rs420", include_top, weights, *args, **kwargs)


def ResNetRS50NoSE(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-50 without squeeze-and-excitation (Table 14)."""
    return build("resnet_rs50_no_se", include_top, weights, *args, **kwargs)


def ResNetRS101NoSE(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-101 without squeeze-and-excitation (Table 14)."""
    return build("resnet_rs101_no_se", include_top, weights, *args, **kwargs)


def ResNetRS152NoSE(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-152 without squeeze-and-excitation (Table 14)."""
    return build("resnet_rs152_no_se", include_top, weights, *args, **kwargs)


def ResNetRS200NoSE(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-200 without squeeze-and-excitation (Table 14)."""
    return build("resnet_rs200_no_se", include_top, weights, *args, **kwargs)


def ResNetRS270NoSE(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-270 without squeeze-and-excitation (Table 14)."""
    return build("resnet_rs270_no_se", include_top, weights, *args, **kwargs)


def ResNetRS350NoSE(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-350 without squeeze-and-excitation (Table 14)."""
    return build("resnet_rs350_no_se", include_top, weights, *args, **kwargs)


def ResNetRS420NoSE(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-RS-420 without squeeze-and-excitation (Table 14)."""
    return build("resnet_rs420_no_se", include_top, weights, *args, **kwargs)


def LambdaResNet26T(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """The `lambda_resnet26t` of timm, with published weights."""
    return build("lambda_resnet26t", include_top, weights, *args, **kwargs)


def LambdaResNet26RPT256(
    include_top=True, weights=None, input_tensor=None, input_shape=(256, 256, 3), *args, **kwargs
) -> keras.Model:
    """The `lambda_resnet26rpt_256` of timm, with published weights, for 256x256 pixels only."""
    return build(
        "lambda_resnet26rpt_256", include_top, weights, input_tensor, input_shape, *args, **kwargs
    )


def LambdaResNet50TS(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """The `lambda_resnet50ts` of timm, with published weights."""
    return build("lambda_resnet50ts", include_top, weights, *args, **kwargs)


def BoTNet26T256(
    include_top=True, weights=None, input_tensor=None, input_shape=(256, 256, 3), *args, **kwargs
) -> keras.Model:
    """The `botnet26t_256` of timm, with published weights, for 256x256 pixels only.

    It is `LambdaResNet26T` with `GlobalAttention`, a small bottleneck transformer.
    """
    return build("botnet26t_256", include_top, weights, input_tensor, input_shape, *args, **kwargs)


def HaloNet26T(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """The `halonet26t` of timm with published weights: `LambdaResNet26T` with `HaloAttention`."""
    return build("halonet26t", include_top, weights, *args, **kwargs)


def HaloNet50TS(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """The `halonet50ts` of timm with published weights: `LambdaResNet50TS` with `HaloAttention`."""
    return build("halonet50ts", include_top, weights, *args, **kwargs)


def ResNet50(include_top=True, weights=None, *args, placement="CCCC", **kwargs) -> keras.Model:
    """ResNet-50 (v1) with lambda layers in place of all 3x3 convolutions of some stages.

    The networks of the ablations (Tables 3, 4 and 9-13): `placement="CCCC"` is the baseline of the
    paper, `"LLLL"` its lambda network.
    """
    return build("resnet50", include_top, weights, *args, placement=placement, **kwargs)


def ResNet50SE(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-50 with squeeze-and-excitation, Table 3's channel attention."""
    return build("resnet50_se", include_top, weights, *args, **kwargs)


def ResNet50DoubleAttention(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-50 with double attention, Table 3's linear attention of Chen et al. (2018)."""
    return build("resnet50_double_attention", include_top, weights, *args, **kwargs)


def ResNet50PyTorch(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """ResNet-50 as timm and torchvision have it, with timm's published weights."""
    return build("resnet50_pytorch", include_top, weights, *args, **kwargs)


def MobileNetV2(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """MobileNetV2 (Sandler et al., CVPR 2018), the baseline of Table 17; c5 has 320 channels."""
    return build("mobilenet_v2", include_top, weights, *args, **kwargs)


def LambdaMobileNetV2(include_top=True, weights=None, *args, **kwargs) -> keras.Model:
    """MobileNetV2 with two lightweight lambda blocks (Table 17 and D.3.2).

    The 10th and the 16th of the 17 inverted bottlenecks have a lambda layer (5x5 scope, k = 32) in
    place of the depthwise convolution, and do not expand.
    """
    return build("lambda_mobilenet_v2", include_top, weights, *args, **kwargs)
