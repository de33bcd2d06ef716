"""LambdaResNets, their baselines and rivals: constructors over the specs of `models.specs`."""

from dataclasses import dataclass

from lambda_keras.applications.common import Arguments, constructor
from lambda_keras.models import specs

# fmt: off
__all__ = [
    "BoTNet26T256", "HaloNet26T", "HaloNet50TS", "LambdaResNet14", "LambdaResNet26RPT256",
    "LambdaResNet26T", "LambdaResNet50", "LambdaResNet50C4", "LambdaResNet50TS",
    "LambdaResNet101", "LambdaResNet101C4", "LambdaResNet152", "LambdaResNet152C4",
    "LambdaResNet200", "LambdaResNet200C4", "LambdaResNet270", "LambdaResNet270C4",
    "LambdaResNet350", "LambdaResNet350C4", "LambdaResNet420", "LambdaResNet420C4", "ResNet50",
    "ResNet50PyTorch", "ResNet50SE", "ResNetRS50", "ResNetRS50NoSE", "ResNetRS101",
    "ResNetRS101NoSE", "ResNetRS152", "ResNetRS152NoSE", "ResNetRS200", "ResNetRS200NoSE",
    "ResNetRS270", "ResNetRS270NoSE", "ResNetRS350", "ResNetRS350NoSE", "ResNetRS420",
    "ResNetRS420NoSE",
]
# fmt: on


@dataclass(frozen=True, kw_only=True)
class ResNetArguments(Arguments):
    """Arguments of residual networks.

    Args:
        stochastic_depth_rate: float, of the branches of c5; those of the stages before drop less,
            in proportion to the number of the stage (Table 20).
        padding: of strided convolutions, `"same"` (TensorFlow's), or the same on both sides:
            `"fixed"`, with TensorFlow's poolings (ResNet-RS), or `"symmetric"`, with PyTorch's.
            Weights fit the padding that they were trained with.
        stem: what c2 follows: `"v1"`, `"tiered"` or `"rs"` at stride 4, or `"small"` at stride 1
            (`lambda_keras.models.specs.ResNetSpec`).
    """

    stochastic_depth_rate: float = 0.0
    padding: str = "same"
    stem: str = "v1"


@dataclass(frozen=True, kw_only=True)
class LambdaResNetArguments(specs.LambdaSpec, ResNetArguments):
    """Arguments of LambdaResNets, those of all their lambda layers too.

    Args:
        placement: a letter for each of the stages c2, c3, c4 and c5 (Table 13), such as `"CLLL"`:
            C for convolutions, L for lambda layers in all blocks. `None` for the network's own
            blocks (Table 18). Squeeze-and-excitation stays in the convolution blocks of c2 and c3.
        mixer: what takes the place of lambda layers: `"lambda"` itself, `"content"` (lambda layers
            without position lambdas), `"global"`, `"local"`, `"halo"`, `"axial"`, or the linear
            attention `"efficient"`, `"linear"`, `"favor"` or `"relu"` (`lambda_keras.layers`;
            `lambda_keras.models.mixers`). Only arguments that it has may be given. Those that are
            not given are its own, such as `num_heads=8` of attention, where each may be one value,
            or four for the stages c2 to c5. `"global"` and `"axial"` need an `input_shape` of known
            height and width.
        output_projection: bool, whether attention ends with one more 1x1 projection.
        scale_positions: bool, whether `"global"` and `"halo"` scale their position terms.
        mask_padding: bool, whether `"local"` and `"halo"` leave out what is beyond the map.
        block_size: int, height and width of the blocks of `"halo"`.
        halo_size: int, how far such a block sees beyond its border.
        strided_queries: bool, whether `"halo"` has strides by fewer queries, without pooling.
        num_features: int, number of random features of `"favor"` and `"relu"`.
        seed: int, of these features.
    """

    placement: str | None = None
    mixer: str = "lambda"
    output_projection: bool = False
    scale_positions: bool = True
    mask_padding: bool = True
    block_size: int = 7
    halo_size: int = 3
    strided_queries: bool = False
    num_features: int = 256
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class SmallResNetArguments(LambdaResNetArguments):
    """Arguments of a residual network whose size may be chosen.

    Args:
        blocks: four ints, numbers of blocks of the stages c2, c3, c4 and c5. A stage of 0 blocks is
            left out, its stride and its features, too.
        filters: int, width of the stem and of the bottlenecks of c2; every stage doubles it.
    """

    blocks: tuple[int, int, int, int] = (1, 1, 1, 1)
    filters: int = 16


@constructor(SmallResNetArguments, "lambda_resnet14", specs.LAMBDA_RESNET14, placement="CCLL")
def LambdaResNet14():
    """A small LambdaResNet for images of some 32 pixels; not in the paper. Strides are 1 to 8."""


@constructor(LambdaResNetArguments, "lambda_resnet50", specs.lambda_resnet(50))
def LambdaResNet50():
    """LambdaResNet-50 (Table 18): 18.96 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet101", specs.lambda_resnet(101))
def LambdaResNet101():
    """LambdaResNet-101 (Table 18): 36.87 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet152", specs.lambda_resnet(152))
def LambdaResNet152():
    """LambdaResNet-152 (Table 18): 51.40 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet200", specs.lambda_resnet(200))
def LambdaResNet200():
    """LambdaResNet-200 (Table 18): 57.99 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet270", specs.lambda_resnet(270))
def LambdaResNet270():
    """LambdaResNet-270 (Table 18): 81.37 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet350", specs.lambda_resnet(350))
def LambdaResNet350():
    """LambdaResNet-350 (Table 18): 105.48 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet420", specs.lambda_resnet(420))
def LambdaResNet420():
    """LambdaResNet-420 (Table 18): 124.44 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet50_c4", specs.lambda_resnet(50, all_c4=True))
def LambdaResNet50C4():
    """LambdaResNet-50, all of c4 and c5 lambda layers (Tables 14, 15): 16.24 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet101_c4", specs.lambda_resnet(101, all_c4=True))
def LambdaResNet101C4():
    """LambdaResNet-101, all of c4 and c5 lambda layers (Tables 14, 15): 25.98 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet152_c4", specs.lambda_resnet(152, all_c4=True))
def LambdaResNet152C4():
    """LambdaResNet-152, all of c4 and c5 lambda layers (Tables 14, 15): 35.08 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet200_c4", specs.lambda_resnet(200, all_c4=True))
def LambdaResNet200C4():
    """LambdaResNet-200, all of c4 and c5 lambda layers (Tables 14, 15): 41.67 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet270_c4", specs.lambda_resnet(270, all_c4=True))
def LambdaResNet270C4():
    """LambdaResNet-270, all of c4 and c5 lambda layers (Tables 14, 15): 55.79 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet350_c4", specs.lambda_resnet(350, all_c4=True))
def LambdaResNet350C4():
    """LambdaResNet-350, all of c4 and c5 lambda layers (Tables 14, 15): 69.56 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet420_c4", specs.lambda_resnet(420, all_c4=True))
def LambdaResNet420C4():
    """LambdaResNet-420, all of c4 and c5 lambda layers (Tables 14, 15): 81.44 M parameters."""


@constructor(ResNetArguments, "resnet_rs50", specs.resnet_rs(50))
def ResNetRS50():
    """ResNet-RS-50, the baseline of Table 14: 35.69 M parameters."""


@constructor(ResNetArguments, "resnet_rs101", specs.resnet_rs(101))
def ResNetRS101():
    """ResNet-RS-101, the baseline of Table 14: 63.62 M parameters."""


@constructor(ResNetArguments, "resnet_rs152", specs.resnet_rs(152))
def ResNetRS152():
    """ResNet-RS-152, the baseline of Table 14: 86.62 M parameters."""


@constructor(ResNetArguments, "resnet_rs200", specs.resnet_rs(200))
def ResNetRS200():
    """ResNet-RS-200, the baseline of Table 14: 93.21 M parameters."""


@constructor(ResNetArguments, "resnet_rs270", specs.resnet_rs(270))
def ResNetRS270():
    """ResNet-RS-270, the baseline of Table 14: 129.86 M parameters."""


@constructor(ResNetArguments, "resnet_rs350", specs.resnet_rs(350))
def ResNetRS350():
    """ResNet-RS-350, the baseline of Table 14: 163.96 M parameters."""


@constructor(ResNetArguments, "resnet_rs420", specs.resnet_rs(420))
def ResNetRS420():
    """ResNet-RS-420, the baseline of Table 14: 191.89 M parameters."""


@constructor(ResNetArguments, "resnet_rs50_no_se", specs.resnet_rs(50, squeeze_excitation=False))
def ResNetRS50NoSE():
    """ResNet-RS-50 without squeeze-and-excitation (Table 14): 25.61 M parameters."""


@constructor(ResNetArguments, "resnet_rs101_no_se", specs.resnet_rs(101, squeeze_excitation=False))
def ResNetRS101NoSE():
    """ResNet-RS-101 without squeeze-and-excitation (Table 14): 44.61 M parameters."""


@constructor(ResNetArguments, "resnet_rs152_no_se", specs.resnet_rs(152, squeeze_excitation=False))
def ResNetRS152NoSE():
    """ResNet-RS-152 without squeeze-and-excitation (Table 14): 60.25 M parameters."""


@constructor(ResNetArguments, "resnet_rs200_no_se", specs.resnet_rs(200, squeeze_excitation=False))
def ResNetRS200NoSE():
    """ResNet-RS-200 without squeeze-and-excitation (Table 14): 64.73 M parameters."""


@constructor(ResNetArguments, "resnet_rs270_no_se", specs.resnet_rs(270, squeeze_excitation=False))
def ResNetRS270NoSE():
    """ResNet-RS-270 without squeeze-and-excitation (Table 14): 89.66 M parameters."""


@constructor(ResNetArguments, "resnet_rs350_no_se", specs.resnet_rs(350, squeeze_excitation=False))
def ResNetRS350NoSE():
    """ResNet-RS-350 without squeeze-and-excitation (Table 14): 112.84 M parameters."""


@constructor(ResNetArguments, "resnet_rs420_no_se", specs.resnet_rs(420, squeeze_excitation=False))
def ResNetRS420NoSE():
    """ResNet-RS-420 without squeeze-and-excitation (Table 14): 131.84 M parameters."""


@constructor(LambdaResNetArguments, "lambda_resnet26t", specs.TIMM["lambda_resnet26t"])
def LambdaResNet26T():
    """timm's `lambda_resnet26t`, with published weights: 10.96 M parameters.

    It is timm's network, layer by layer, so that timm's weights give timm's outputs.
    """


@constructor(
    LambdaResNetArguments,
    "lambda_resnet26rpt_256",
    specs.TIMM["lambda_resnet26rpt_256"],
    input_shape=(256, 256, 3),
)
def LambdaResNet26RPT256():
    """timm's `lambda_resnet26rpt_256`, with published weights: 10.99 M parameters.

    It is timm's network, layer by layer, so that timm's weights give timm's outputs.
    Its embeddings are global: the weights are for images of 256x256 pixels only.
    """


@constructor(LambdaResNetArguments, "lambda_resnet50ts", specs.TIMM["lambda_resnet50ts"])
def LambdaResNet50TS():
    """timm's `lambda_resnet50ts`, with published weights: 21.54 M parameters.

    It is timm's network, layer by layer, so that timm's weights give timm's outputs.
    """


@constructor(
    LambdaResNetArguments,
    "botnet26t_256",
    specs.TIMM["botnet26t_256"],
    input_shape=(256, 256, 3),
)
def BoTNet26T256():
    """timm's `botnet26t_256`, with published weights: 12.49 M parameters.

    It is timm's network, layer by layer, so that timm's weights give timm's outputs.
    It is `LambdaResNet26T` with global attention in place of lambda layers, a small bottleneck
    transformer (Srinivas et al., 2021, arXiv:2101.11605).
    Its embeddings are global: the weights are for images of 256x256 pixels only.
    """


@constructor(LambdaResNetArguments, "halonet26t", specs.TIMM["halonet26t"])
def HaloNet26T():
    """timm's `halonet26t`, with published weights: 12.48 M parameters.

    It is timm's network, layer by layer, so that timm's weights give timm's outputs.
    It is `LambdaResNet26T` with halo attention in place of lambda layers (Vaswani et al., 2021,
    arXiv:2103.12731).
    """


@constructor(LambdaResNetArguments, "halonet50ts", specs.TIMM["halonet50ts"])
def HaloNet50TS():
    """timm's `halonet50ts`, with published weights: 22.73 M parameters.

    It is timm's network, layer by layer, so that timm's weights give timm's outputs.
    It is `LambdaResNet50TS` with halo attention in place of lambda layers (Vaswani et al., 2021,
    arXiv:2103.12731).
    """


@constructor(LambdaResNetArguments, "resnet50", specs.RESNET50, placement="CCCC")
def ResNet50():
    """ResNet-50 (v1) with lambda layers in place of all 3x3 convolutions of some stages.

    The networks of the ablations (Tables 3, 4 and 9-13): `placement="CCCC"` is the baseline of the
    paper, `"LLLL"` its lambda network.
    """


@constructor(ResNetArguments, "resnet50_se", specs.RESNET50_SE)
def ResNet50SE():
    """ResNet-50 with squeeze-and-excitation, Table 3's channel attention: 28.09 M parameters."""


@constructor(ResNetArguments, "resnet50_pytorch", specs.RESNET50_PYTORCH)
def ResNet50PyTorch():
    """ResNet-50 as timm and torchvision have it, with timm's published weights: 25.56 M parameters.

    It is timm's network, layer by layer, so that timm's weights give timm's outputs.
    """
