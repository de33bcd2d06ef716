"""The networks as data: one row of `NETWORKS` per network.

Only the standard library is imported: commands look names up before they load Keras.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

STAGES = ("c2", "c3", "c4", "c5")
# Channel statistics of ImageNet on the scale [0, 1]: images are normalized by them.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
IMAGENET, FASHION_MNIST = "imagenet", "fashion_mnist"  # names of the default published weights
# Class names of the data sets other than ImageNet, as TensorFlow Datasets has them.
CLASS_NAMES = {
    FASHION_MNIST: ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
}  # fmt: skip


@dataclass(frozen=True)
class ResNetSpec:
    """A residual network of bottleneck blocks, some of which have lambda or attention layers.

    Attributes without a comment are arguments of the constructors
    (`lambda_keras.applications.arguments`).

    Raises:
        ValueError: If `blocks` or `filters` are out of range.
    """

    batch_norm_epsilon: ClassVar[float] = 1e-5  # of TensorFlow's ResNets; the paper names none
    blocks: tuple[int, int, int, int]
    # For each stage, 1-based numbers of the blocks with the mixer in place of a 3x3 convolution.
    mixer_blocks: tuple[tuple[int, ...], ...] = ((), (), (), ())
    # "v1" (7x7 convolution and max pooling, He et al., 2015), "rs" (three 3x3 convolutions, then a
    # strided one, ResNet-RS), "tiered" (three 3x3 convolutions of growing width and max pooling,
    # timm) or "small" (one 3x3 convolution of stride 1, as is usual for CIFAR).
    stem: str = "v1"
    # Strided 1x1 convolution ("conv"), or average pooling, then 1x1 convolution ("pool", ResNet-D).
    shortcut: str = "conv"
    # For each stage, whether its convolution blocks have it; blocks with the mixer never do (E.1).
    squeeze_excitation: tuple[bool, bool, bool, bool] = (False, False, False, False)
    squeeze_ratio: float = 0.25  # squeezed channels per channel of the block
    double_attention: bool = False
    filters: int = 64
    mixer: str | None = "lambda"  # None for networks that have convolutions only
    # By the name of a mixer, arguments of its layer that differ from the defaults.
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    activation: str = "relu"
    padding: str = "same"
    mixer_pool_size: int = 3  # pooling after a mixer with stride 2: 3 in the paper (E.1), 2 in timm
    batch_norm_momentum: float = 0.9
    dropout_rate: float = 0.0
    stochastic_depth_rate: float = 0.0

    def __post_init__(self):
        blocks = self.blocks
        integers = isinstance(blocks, Sequence) and all(type(n) is int and n >= 0 for n in blocks)
        if not integers or len(blocks) != len(STAGES) or not any(blocks):
            raise ValueError(
                f"expected blocks to be four integers, one for each of the stages {STAGES}, and "
                f"not all 0. Received: blocks={one_line(blocks)}"
            )
        if type(self.filters) is not int or self.filters < 1:
            received = f"Received: filters={one_line(self.filters)}"
            raise ValueError(f"expected a positive integer. {received}")


@dataclass(frozen=True)
class MobileNetSpec:
    """MobileNetV2, some blocks of which have lambda layers.

    Attributes without a comment are arguments of the constructors.
    """

    batch_norm_epsilon: ClassVar[float] = 1e-3  # of the authors' implementation
    mixer: ClassVar[str] = "lambda"
    # 1-based numbers of the blocks with a lambda layer in place of a depthwise convolution (D.3.2).
    lambda_blocks: tuple[int, ...] = ()
    expand_lambda: bool = True
    alpha: float = 1.0
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # as in ResNetSpec
    batch_norm_momentum: float = 0.9
    dropout_rate: float = 0.0


@dataclass(frozen=True)
class PublishedWeights:
    """Published weights of one network: a file of the Hugging Face Hub, an address or a package."""

    repository: str  # owner and name on the Hub, the `https://` address of a file, or a package
    top1: float  # top-1 accuracy on `data` in percent, published by the authors of the weights
    image_size: int  # height and width, in pixels, of the images that they were evaluated on
    # As in `Preprocessing`; None leaves out 32 pixels, as for the paper's networks.
    crop_fraction: float | None = None
    filename: str = "model.safetensors"
    revision: str = "main"
    checksum: str | None = None  # SHA-256 or MD5 of the file, or the one that the Hub records
    license: str = "Apache-2.0"
    data: str = "ImageNet"
    interpolation: str = "bicubic"
    resize: str = "crop"

    @property
    def is_packaged(self) -> bool:
        """Whether the file is a part of an installed package."""
        return "/" not in self.repository

    @property
    def page(self) -> str:
        """Address where people find the weights, or the file in a package."""
        if self.is_packaged:
            return f"{self.repository.replace('.', '/')}/{self.filename}"
        if self.repository.startswith("https://"):
            return self.repository
        return f"https://huggingface.co/{self.repository}"


@dataclass(frozen=True)
class Network:
    """One network by name: spec, constructor, counts, published accuracy and weights."""

    name: str  # on command lines and in files, and of the model
    constructor: str  # its name in `lambda_keras.applications`
    spec: ResNetSpec | MobileNetSpec
    parameters: int  # trainable ones, with 1000 classes
    gflops: float  # `lambda_keras.applications.count_flops` of an image of `image_size`, in 10^9
    image_size: int  # height and width, in pixels, that `top1` was published for
    top1: float | None = None  # published ImageNet top-1 accuracy in percent
    source: str = ""  # of `top1`: a table of the LambdaNetworks paper, or who published the weights
    recipe: str = ""  # training that `top1` comes from (E.2 in the paper)
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of the constructor
    weights: Mapping[str, PublishedWeights] = field(default_factory=dict)  # the default ones first

    def published(self, weights: object) -> PublishedWeights | None:
        """Published weights by name, or `None`; `"imagenet"` stands for the first of them."""
        names = [name for name in self.weights if name.partition("-")[0] == weights]
        return self.weights.get(names[0] if names else str(weights))

    def size_for(self, weights: str) -> int:
        """Image size for `weights=`: the weights' own if they are published, else the network's."""
        published = is_published_name(weights)
        return find_published(self.name, weights).image_size if published else self.image_size


def is_published_name(weights: object) -> bool:
    """Whether this is `"imagenet"`, `"imagenet-..."` or `"fashion_mnist"`, not a file."""
    names = "|".join((IMAGENET, *CLASS_NAMES))
    return isinstance(weights, str) and bool(re.fullmatch(rf"({names})(-\w+)?", weights))


def class_count(weights: object) -> int:
    """Number of classes of published weights; of all others 1000, the default of Keras."""
    return len(CLASS_NAMES.get(str(weights), range(1000)))


def find_published(network: str, weights: str = IMAGENET) -> PublishedWeights:
    """Finds `Network.published` weights by the network's name, or raises a `ValueError`."""
    if not isinstance(network, str) or not isinstance(weights, str):
        raise ValueError(
            "expected the names of a network and of weights. "
            f"Received: network={one_line(network)}, weights={one_line(weights)}"
        )
    row = NETWORKS.get(network)
    if row and (entry := row.published(weights)):
        return entry
    data = weights.partition("-")[0]
    if not row or not row.published(data):
        published = [name for name, row in NETWORKS.items() if row.published(data)]
        same = [name for name in published if name.startswith(f"{network}_")]
        hint = f"; {' and '.join(same)} has some" if same else ""
        if row and row.weights:
            hint = f"; it has {', '.join(row.weights)}"
        source = row.source if row else ""
        if "/" in source:  # a repository
            hint = f"; {source} links a checkpoint, which python -m zoo.convert reads"
        raise ValueError(
            f"expected a network with published weights of {data}: {', '.join(published)}. "
            f"Received: weights={weights!r} of {network!r}{hint}"
        )
    raise ValueError(
        f"expected weights of {network!r} to be one of "
        f"{', '.join(dict.fromkeys((data, *row.weights)))}. Received: weights={weights!r}"
    )


def one_line(value: object) -> str:
    """The representation of a value without its line breaks, for error messages."""
    return " ".join(repr(value).split())


def placement(blocks: tuple[int, int, int, int], letters: str) -> tuple[tuple[int, ...], ...]:
    """Blocks with the mixer for a placement such as `"CCLL"`: C convolution, L lambda layer."""
    if not isinstance(letters, str) or len(letters) != len(STAGES) or set(letters) - set("CL"):
        raise ValueError(
            "expected a placement of four letters C (convolution) or L (lambda layer), one for "
            f"each of the stages {STAGES}. Received: placement={one_line(letters)}"
        )
    return tuple(
        tuple(range(1, number + 1)) if letter == "L" else ()
        for number, letter in zip(blocks, letters, strict=True)
    )


# Tables 14 and 18: blocks of c2-c5, then the blocks of c4 with a lambda layer in the LambdaResNet.
# The paper states no rule for the latter: they are every 3rd to 10th, never the last.
DEPTHS = {
    50: ((3, 4, 6, 3), (3,)),
    101: ((3, 4, 23, 3), (6, 12, 18)),
    152: ((3, 8, 36, 3), (5, 10, 15, 20, 25, 30)),
    200: ((3, 24, 36, 3), (5, 10, 15, 20, 25, 30)),
    270: ((4, 29, 53, 4), (8, 16, 24, 32, 40, 48)),
    350: ((4, 36, 72, 4), (10, 20, 30, 40, 50, 60)),
    420: ((4, 44, 87, 4), (10, 20, 30, 40, 50, 60, 70, 80)),
}


def with_blocks(spec: ResNetSpec, blocks: Sequence[int]) -> ResNetSpec:
    """Changes the depth of a spec; where some blocks of a stage have the mixer, its spacing stays.

    In c4 of LambdaResNets, block counts of Table 18 get the lambda layers of that table.
    """
    changed = replace(spec, blocks=blocks)  # checked before they are counted
    mixed = [*map(_spread, spec.mixer_blocks, spec.blocks, blocks)]
    c4_mixed = {row[2]: c4 for row, c4 in DEPTHS.values()}
    if spec.mixer_blocks[2] == c4_mixed.get(spec.blocks[2]) and blocks[2] in c4_mixed:
        mixed[2] = c4_mixed[blocks[2]]
    return replace(changed, mixer_blocks=tuple(mixed))


def _spread(mixed: tuple[int, ...], number: int, blocks: int) -> tuple[int, ...]:
    """Blocks with the mixer at another depth: all, none, or as far apart as before."""
    if len(mixed) in (0, number):
        return tuple(range(1, blocks + 1)) if mixed else ()
    if blocks == number:
        return mixed
    step = mixed[1] - mixed[0] if mixed[1:] else mixed[0]
    return tuple(range(mixed[0], blocks + (mixed[-1] == number), step))  # the last one if it had it


def resnet_rs(depth: int) -> ResNetSpec:
    """A ResNet-RS (Table 14)."""
    return ResNetSpec(
        DEPTHS[depth][0],
        stem="rs",
        shortcut="pool",
        squeeze_excitation=(True, True, True, True),
        mixer=None,
        padding="fixed",
    )


def lambda_resnet(depth: int) -> ResNetSpec:
    """A LambdaResNet: ResNet-RS with lambda layers in c5 and some of c4 (Table 18).

    Squeeze-and-excitation stays in c2 and c3 only: the text removes it only from blocks with a
    lambda layer, but the published sizes fit only if c4 and c5 have none.
    """
    blocks, c4 = DEPTHS[depth]
    *_, every_c5 = placement(blocks, "CCCL")
    return replace(
        resnet_rs(depth),
        mixer_blocks=((), (), c4, every_c5),
        mixer="lambda",
        squeeze_excitation=(True, True, False, False),
    )


RESNET50 = ResNetSpec(DEPTHS[50][0], squeeze_ratio=1 / 16)  # ratio of Hu et al. (CVPR 2018)
# Networks of timm (Apache-2.0), which have published weights; not in the paper. Their position
# lambdas are convolutions with a bias, or global embeddings for images of 256 pixels. Bottleneck
# transformers and HaloNets have attention in the same blocks; halos include zeros beyond the map.
_TIMM_26 = ResNetSpec(
    blocks=(2, 2, 2, 2),
    mixer_blocks=((), (), (2,), (1, 2)),
    stem="tiered",
    padding="symmetric",
    arguments={"lambda": {"scope": 9, "use_bias": True}},
    mixer_pool_size=2,
)
_TIMM_50 = replace(
    _TIMM_26, blocks=(3, 4, 6, 3), mixer_blocks=((), (4,), (2, 4, 6), (2,)), activation="silu"
)


def _with_mixer(spec: ResNetSpec, mixer: str, **arguments: Any) -> ResNetSpec:
    """A spec with another mixer, which keeps the arguments of the first one."""
    return replace(spec, mixer=mixer, arguments={**spec.arguments, mixer: arguments})


_BOTNET = _with_mixer(_TIMM_26, "global", num_heads=4, key_dim=None, scale_positions=False)
_HALO = {
    "num_heads": 8,
    "key_dim": None,
    "block_size": 8,
    "halo_size": 2,
    "mask_padding": False,
    "scale_positions": False,
    "strided_queries": True,
}
_HALO_50 = {**_HALO, "num_heads": (8, 4, 8, 8), "halo_size": 3}
_HALONET_26 = _with_mixer(_TIMM_26, "halo", **_HALO)
_HALONET_50 = _with_mixer(_TIMM_50, "halo", **_HALO_50)
# Publication and recipe of accuracies.
TABLE_13, TABLE_17 = ("Table 13", "90 epochs"), ("Table 17", "mobilenet")
TABLE_14, TABLE_19 = ("Table 14", "350 epochs"), ("Table 19", "350 epochs")


# Constructor, spec, arguments and table with accuracies of the networks of Tables 14 and 18, by
# their names.
FAMILIES = {
    "lambda_resnet{}": ("LambdaResNet{}", lambda_resnet, {}, TABLE_19),
    "lambda_resnet{}_c4": ("LambdaResNet{}", lambda_resnet, {"placement": "CCLL"}, TABLE_14),
    "resnet_rs{}": ("ResNetRS{}", resnet_rs, {}, TABLE_14),
    "resnet_rs{}_no_se": ("ResNetRS{}", resnet_rs, {"squeeze_excitation": False}, TABLE_14),
}
RESNET_RS_FILES = "https://storage.googleapis.com/tensorflow/keras-applications/resnet_rs"


def _family(
    name: str,
    depth: int,
    parameters: int,
    gflops: float,
    image_size: int,
    top1: float | None = None,
    weights: Sequence[tuple[int, float, str]] = (),
) -> Network:
    """A network of `FAMILIES`, with weights by image size, accuracy and MD5.

    Accuracies are from tensorflow/tpu, whose evaluation crops 32 pixels, MD5s from tf_keras.
    """
    constructor, spec, arguments, table = FAMILIES[name]
    files = {
        f"imagenet-i{size}": PublishedWeights(
            f"{RESNET_RS_FILES}/resnet-rs-{depth}-i{size}.h5", accuracy, size, checksum=md5
        )
        for size, accuracy, md5 in weights
    }
    source, recipe = table if top1 else ("", "")
    published = (image_size, top1, source, recipe, arguments, files)
    name, constructor = name.format(depth), constructor.format(depth)
    return Network(name, constructor, spec(depth), parameters, gflops, *published)


def _resnet50(
    suffix: str, parameters: int, gflops: float, *published: Any, **arguments: Any
) -> Network:
    """A ResNet-50 with other arguments: ablations of Table 13 and baselines of Tables 3 and 4."""
    counts, name = (parameters, gflops, 224), f"resnet50_{suffix}"
    return Network(name, "ResNet50", RESNET50, *counts, *published, arguments=arguments)


def _timm(weights: PublishedWeights, *network: Any) -> Network:
    """A network of timm, with weights on the Hub."""
    row: Any = (*network, weights.image_size, weights.top1, "timm", "timm")
    return Network(*row, weights={IMAGENET: weights})


# Where the paper has several image sizes without extra data, the row has the most accurate one.
# Of the Hub's files, commit and checksum of only one could be read when this was written.
# fmt: off
ROWS = (
    # Not in the paper: for images of about 32 pixels, for demonstrations and tests. Its weights
    # were trained here; `python -m tools.package_weights` wrote the file, its card and this row.
    Network("lambda_resnet14", "LambdaResNet14", ResNetSpec(
        blocks=(1, 1, 1, 1), mixer_blocks=((), (), (1,), (1,)), stem="small", shortcut="pool",
        filters=16, padding="fixed", arguments={"lambda": {"scope": 7}},
    ), 855_544, 0.064, 32, weights={FASHION_MNIST: PublishedWeights(
        "lambda_keras.weights", 94.35, 28, 1.0, "lambda_resnet14_fashion_mnist.safetensors",
        checksum="25e708499763003dd5bbe5abbc1853125e86de561fd0869d6c7619688f79c84d",
        data="Fashion-MNIST", interpolation="bilinear", resize="squash")}),
    _family("lambda_resnet{}", 50, 18_963_272, 4.18, 160, top1=79.2),
    _family("lambda_resnet{}", 101, 36_866_920, 11.285, 192, top1=81.9),
    _family("lambda_resnet{}", 152, 51_404_696, 29.632, 256, top1=83.8),
    _family("lambda_resnet{}", 200, 57_993_112, 61.535, 320),
    _family("lambda_resnet{}", 270, 81_366_248, 52.186, 256, top1=84.2),
    _family("lambda_resnet{}", 350, 105_475_176, 105.697, 320, top1=84.7),
    _family("lambda_resnet{}", 420, 124_438_664, 125.984, 320, top1=84.9),
    _family("lambda_resnet{}_c4", 50, 16_242_072, 4.073, 160),
    _family("lambda_resnet{}_c4", 101, 25_982_120, 13.603, 224, top1=82.6),
    _family("lambda_resnet{}_c4", 152, 35_077_496, 26.353, 256, top1=83.4),
    _family("lambda_resnet{}_c4", 200, 41_665_912, 59.832, 320),
    _family("lambda_resnet{}_c4", 270, 55_786_968, 46.455, 256),
    _family("lambda_resnet{}_c4", 350, 69_555_336, 100.13, 320),
    _family("lambda_resnet{}_c4", 420, 81_443_704, 119.022, 320),
    _family("resnet_rs{}", 50, 35_691_912, 4.557, 160, weights=[
            (160, 78.8, "69d9d925319f00a8bdd4af23c04e4102")]),
    _family("resnet_rs{}", 101, 63_618_696, 16.351, 224, top1=81.8, weights=[
            (192, 81.2, "eb285be29ab42cf4835ff20a5e3b5d23"),
            (160, 80.3, "544b3434d00efc199d66e9058c7f3379")]),
    _family("resnet_rs{}", 152, 86_621_576, 31.056, 256, top1=83.0, weights=[
            (256, 83.0, "ba6271b99bdeb4e7a9b15c05964ef4ad"),
            (224, 82.2, "31a46a92ab21b84193d0d71dd8c3d03b"),
            (192, 82.0, "8d72a301ed8a6f11a47c4ced4396e338")]),
    _family("resnet_rs{}", 200, 93_209_992, 62.758, 320, weights=[
            (256, 83.4, "a76930b741884e09ce90fa7450747d5f")]),
    _family("resnet_rs{}", 270, 129_861_448, 53.9, 256, weights=[
            (256, 83.8, "20d575825ba26176b03cb51012a367a8")]),
    _family("resnet_rs{}", 350, 163_956_168, 107.367, 320, weights=[
            (320, 84.2, "7ccb858cc738305e8ceb3c0140bee393"),
            (256, 84.0, "f4a039dc3c421321b7fc240494574a68")]),
    _family("resnet_rs{}", 420, 191_891_656, 127.885, 320, weights=[
            (320, 84.4, "ae0eb9bed39e64fc8d7e0db4018dc7e8")]),
    _family("resnet_rs{}_no_se", 50, 25_613_256, 4.537, 160),
    _family("resnet_rs{}_no_se", 101, 44_605_384, 16.313, 224, top1=81.3),
    _family("resnet_rs{}_no_se", 152, 60_249_032, 31.003, 256, top1=82.5),
    _family("resnet_rs{}_no_se", 200, 64_730_056, 62.701, 320),
    _family("resnet_rs{}_no_se", 270, 89_655_496, 53.82, 256),
    _family("resnet_rs{}_no_se", 350, 112_842_440, 107.265, 320),
    _family("resnet_rs{}_no_se", 420, 131_840_712, 127.765, 320),
    Network("resnet50", "ResNet50", RESNET50, 25_557_032, 8.178, 224, 76.9, *TABLE_13),
    # Table 3's "channel attention", and its "linear attention" (Chen et al., 2018).
    _resnet50("se", 28_088_024, 8.183, 77.6, "Table 3", "90 epochs", squeeze_excitation=True),
    _resnet50("double_attention", 32_915_496, 13.316, 77.0, "Table 3", "its authors'",
              double_attention=True),
    _resnet50("lccc", 25_490_744, 10.192, 77.3, *TABLE_13, placement="LCCC"),
    _resnet50("llcc", 24_992_888, 12.448, 77.2, *TABLE_13, placement="LLCC"),
    _resnet50("lllc", 21_727_448, 12.466, 77.8, *TABLE_13, placement="LLLC"),
    _resnet50("llll", 14_995_592, 12.023, 78.4, *TABLE_13, placement="LLLL"),
    _resnet50("clll", 15_061_880, 10.009, 78.3, *TABLE_13, placement="CLLL"),
    _resnet50("ccll", 15_559_736, 7.753, 78.3, *TABLE_13, placement="CCLL"),
    _resnet50("cccl", 18_825_176, 7.735, 77.3, *TABLE_13, placement="CCCL"),
    # Table 3's "relative self-attention" (Bello et al., 2019).
    _resnet50("augmented", 25_777_392, 8.377, 77.7, "Table 3", "its authors'",
              placement="CLLL", mixer="augmented"),
    _resnet50("global", 18_045_304, 21.449, placement="LLLL", mixer="global"),
    _resnet50("local", 18_015_504, 6.806, placement="LLLL", mixer="local"),
    _resnet50("halo", 18_035_800, 7.885, placement="LLLL", mixer="halo"),
    _resnet50("axial", 19_397_832, 8.105, placement="LLLL", mixer="axial"),
    _resnet50("efficient", 18_012_200, 6.566, placement="LLLL", mixer="efficient"),
    _resnet50("linear", 18_012_200, 6.57, placement="LLLL", mixer="linear"),
    _resnet50("favor", 18_012_200, 10.38, placement="LLLL", mixer="favor"),
    _resnet50("relu", 18_012_200, 10.38, placement="LLLL", mixer="relu"),
    _timm(PublishedWeights("timm/lambda_resnet26t.c1_in1k", 79.126, 256, 0.94),
          "lambda_resnet26t", "LambdaResNet26T", _TIMM_26, 10_958_272, 6.002),
    _timm(PublishedWeights("timm/lambda_resnet26rpt_256.c1_in1k", 78.960, 256, 0.94),
          "lambda_resnet26rpt_256", "LambdaResNet26RPT256",
          replace(_TIMM_26, arguments={"lambda": {"scope": None}}), 10_988_688, 6.278),
    _timm(PublishedWeights("timm/lambda_resnet50ts.a1h_in1k", 81.184, 256, 0.95,
          revision="d1104e080d2725a19db5ec2ec58f589c490d674b",
          checksum="bcb80eaa77910c72c9c0ff9e83f99d550270fc23ab0ccac69d01e35cb269cdf8"),
          "lambda_resnet50ts", "LambdaResNet50TS", _TIMM_50, 21_536_832, 10.069),
    _timm(PublishedWeights("timm/botnet26t_256.c1_in1k", 79.256, 256, 0.95),
          "botnet26t_256", "BoTNet26T256", _BOTNET, 12_488_672, 6.595),
    _timm(PublishedWeights("timm/halonet26t.a1h_in1k", 79.134, 256, 0.95),
          "halonet26t", "HaloNet26T", _HALONET_26, 12_480_288, 6.346),
    _timm(PublishedWeights("timm/halonet50ts.a1h_in1k", 81.640, 256, 0.94),
          "halonet50ts", "HaloNet50TS", _HALONET_50, 22_733_280, 10.539),
    # "ResNet strikes back" (Wightman et al., 2021), procedure A1.
    _timm(PublishedWeights("timm/resnet50.a1_in1k", 80.4, 224, 0.95),
          "resnet50_pytorch", "ResNet50PyTorch",
          replace(RESNET50, padding="symmetric", mixer=None), 25_557_032, 8.178),
    _resnet50("llll_pytorch", 14_995_848, 12.023, 78.208, "d-li14/lambda.pytorch", "130 epochs",
              placement="LLLL", padding="symmetric", use_bias=True),
    # Keras states no checksum of the weights, nor how images were cropped for their accuracy: 224
    # of 256 pixels is usual.
    Network("mobilenet_v2", "MobileNetV2", MobileNetSpec(),
            3_504_872, 0.602, 224, 72.7, *TABLE_17, weights={IMAGENET: PublishedWeights(
                "https://storage.googleapis.com/tensorflow/keras-applications/mobilenet_v2/"
                "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224.h5", 71.3, 224, 0.875)}),
    # D.3.2.
    Network("lambda_mobilenet_v2", "LambdaMobileNetV2", MobileNetSpec(
        lambda_blocks=(10, 16), arguments={"lambda": {"key_dim": 32, "scope": 5}},
    ), 3_236_824, 0.577, 224, 73.3, *TABLE_17),
)
# fmt: on
NETWORKS = {row.name: row for row in ROWS}
