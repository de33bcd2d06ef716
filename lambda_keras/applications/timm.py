"""Networks of timm, layer by layer, so that timm's weights give timm's outputs."""

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
    "BoTNet26T256",
    "HaloNet26T",
    "HaloNet50TS",
    "LambdaResNet26RPT256",
    "LambdaResNet26T",
    "LambdaResNet50TS",
    "ResNet50PyTorch",
]


def LambdaResNet26T(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "lambda_resnet26t",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """The `lambda_resnet26t` of timm, with published weights.

    Blocks of c2 to c5: 2, 2, 2, 2; lambda layers in block 2 of c4 and all of c5.
    10,958,272 parameters, 6.002 GFLOPs for an image of 256x256.
    """
    return build("lambda_resnet26t", **locals())


def LambdaResNet26RPT256(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = (256, 256, 3), pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "lambda_resnet26rpt_256",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """The `lambda_resnet26rpt_256` of timm, with published weights, for 256x256 pixels only.

    Blocks of c2 to c5: 2, 2, 2, 2; lambda layers in block 2 of c4 and all of c5.
    10,988,688 parameters, 6.278 GFLOPs for an image of 256x256.
    """
    return build("lambda_resnet26rpt_256", **locals())


def LambdaResNet50TS(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "lambda_resnet50ts",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """The `lambda_resnet50ts` of timm, with published weights.

    Blocks of c2 to c5: 3, 4, 6, 3; lambda layers in block 4 of c3 and blocks 2, 4, 6 of c4 and
    block 2 of c5.
    21,536,832 parameters, 10.069 GFLOPs for an image of 256x256.
    """
    return build("lambda_resnet50ts", **locals())


def BoTNet26T256(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = (256, 256, 3), pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "botnet26t_256",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """The `botnet26t_256` of timm, with published weights, for 256x256 pixels only.

    Blocks of c2 to c5: 2, 2, 2, 2; global attention in block 2 of c4 and all of c5.
    12,488,672 parameters, 6.595 GFLOPs for an image of 256x256.

    It is `LambdaResNet26T` with `GlobalAttention`, a small bottleneck transformer.
    """
    return build("botnet26t_256", **locals())


def HaloNet26T(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "halonet26t",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """The `halonet26t` of timm with published weights: `LambdaResNet26T` with `HaloAttention`.

    Blocks of c2 to c5: 2, 2, 2, 2; halo attention in block 2 of c4 and all of c5.
    12,480,288 parameters, 6.346 GFLOPs for an image of 256x256.
    """
    return build("halonet26t", **locals())


def HaloNet50TS(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "halonet50ts",
    **arguments: Unpack[MixerResNetArguments],
) -> keras.Model:  # fmt: skip
    """The `halonet50ts` of timm with published weights: `LambdaResNet50TS` with `HaloAttention`.

    Blocks of c2 to c5: 3, 4, 6, 3; halo attention in block 4 of c3 and blocks 2, 4, 6 of c4 and
    block 2 of c5.
    22,733,280 parameters, 10.539 GFLOPs for an image of 256x256.
    """
    return build("halonet50ts", **locals())


def ResNet50PyTorch(
    include_top: bool = True, weights: Weights = None, input_tensor: Any = None,
    input_shape: Shape = None, pooling: Pooling = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str = "resnet50_pytorch",
    **arguments: Unpack[ResNetArguments],
) -> keras.Model:  # fmt: skip
    """ResNet-50 as timm and torchvision have it, with timm's published weights.

    Blocks of c2 to c5: 3, 4, 6, 3.
    25,557,032 parameters, 8.178 GFLOPs for an image of 224x224.
    """
    return build("resnet50_pytorch", **locals())


document(__all__, globals())
