"""The networks of the paper as data. No Keras in here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

STAGES = ("c2", "c3", "c4", "c5")
# Of the channels of ImageNet on the scale [0, 1]: networks take images normalised by them.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class LambdaSpec:
    """Hyper-parameters of the lambda layers of a network; the defaults are those of E.1.

    Args:
        num_heads: int, number of queries per position (h).
        key_dim: int, query and key depth (k).
        intra_depth: int, intra-depth (u).
        scope: odd int, size of the square neighbourhood of position lambdas; `None` for all of the
            map; or four of these, one for each of the stages c2 to c5.
        multi_query: bool; `False` for keys, values and embeddings of each head's own (Figure 7).
        use_content: bool, whether there are content lambdas (Table 10).
        position_embedding: `"relative"`, `"shared"` (one table for all layers of the network,
            Table 4) or `None` for no position lambdas (Table 10).
        query_normalization: `"batch"`, `"softmax"` or `None` (Table 12).
        key_normalization: `"softmax"`, `"l2"` or `None` (Table 12).
        value_normalization: `"batch"` or `None` (Table 12).
        use_bias: bool, whether position lambdas have a bias, as in PyTorch implementations.
        implementation: how position lambdas are computed, see `lambda_keras.layers.LambdaLayer`.
    """

    num_heads: int = 4
    key_dim: int = 16
    intra_depth: int = 1
    scope: int | Sequence[int | None] | None = 23
    multi_query: bool = True
    use_content: bool = True
    position_embedding: str | None = "relative"
    query_normalization: str | None = "batch"
    key_normalization: str | None = "softmax"
    value_normalization: str | None = "batch"
    use_bias: bool = False
    implementation: str = "auto"

    @property
    def scopes(self) -> tuple[int | None, ...]:
        """The scope of each stage."""
        if isinstance(self.scope, Sequence):
            return tuple(self.scope)
        return (self.scope,) * len(STAGES)


@dataclass(frozen=True)
class ResNetSpec:
    """A residual network of bottleneck blocks, some of which have lambda or attention layers.

    Attributes:
        blocks: numbers of bottleneck blocks of the stages c2, c3, c4 and c5.
        mixer_blocks: for each stage, the 1-based numbers of the blocks whose 3x3 convolution is
            replaced by the mixer.
        stem: `"v1"` (7x7 convolution and max pooling, He et al., 2015), `"rs"` (three 3x3
            convolutions, then a strided one, ResNet-RS), `"tiered"` (three 3x3 convolutions of
            growing width and max pooling, timm) or `"small"` (one 3x3 convolution of stride 1,
            for images of some 32 pixels, as is usual for CIFAR).
        shortcut: `"conv"` (strided 1x1 convolution) or `"pool"` (average pooling, then 1x1
            convolution: ResNet-D).
        squeeze_excitation: for each stage, whether its convolution blocks have
            squeeze-and-excitation; blocks with the mixer never have (E.1).
        squeeze_ratio: width of the squeezed layer in parts of the block's.
        filters: bottleneck width of c2, doubled at each stage.
        mixer: the layer in these blocks, a name of `lambda_keras.models.mixers.MIXERS`.
        lambda_layer: hyper-parameters of the mixers `"lambda"` and `"content"`.
        mixer_arguments: those of another mixer that differ from its defaults; each a value, or
            four, one for each of the stages c2 to c5.
        activation: of every activation layer.
        padding: of strided convolutions, `"same"` (TensorFlow's: what is odd goes to the end) or
            the same on both sides: `"fixed"`, with TensorFlow's poolings, as ResNet-RS has it, or
            `"symmetric"`, with PyTorch's poolings.
        mixer_pool_size: width of the average pooling after a mixer with stride 2: 3 in the paper
            (E.1), 2 in timm.
        batch_norm_momentum: of the moving statistics of all batch normalizations.
        dropout_rate: of the pooled features, before the classifier (Table 20).
        stochastic_depth_rate: of the branches of c5; those of the stages before drop less, in
            proportion to the number of the stage: 4/5 in c4, as in ResNet-RS (Table 20).

    Raises:
        ValueError: if the numbers of blocks or filters are none.
    """

    blocks: tuple[int, int, int, int]
    mixer_blocks: tuple[tuple[int, ...], ...] = ((), (), (), ())
    stem: str = "v1"
    shortcut: str = "conv"
    squeeze_excitation: tuple[bool, bool, bool, bool] = (False, False, False, False)
    squeeze_ratio: float = 0.25
    filters: int = 64
    mixer: str = "lambda"
    lambda_layer: LambdaSpec = field(default_factory=LambdaSpec)
    mixer_arguments: Mapping[str, Any] = field(default_factory=dict)
    activation: str = "relu"
    padding: str = "same"
    mixer_pool_size: int = 3
    batch_norm_momentum: float = 0.9
    dropout_rate: float = 0.0
    stochastic_depth_rate: float = 0.0

    def __post_init__(self):
        blocks = self.blocks
        integers = isinstance(blocks, Sequence) and all(type(n) is int and n >= 0 for n in blocks)
        if not integers or len(blocks) != len(STAGES) or not any(blocks):
            raise ValueError(
                f"expected blocks to be four integers, one for each of the stages {STAGES}, and "
                f"not all 0. Received: blocks={blocks!r}"
            )
        if type(self.filters) is not int or self.filters < 1:
            raise ValueError(f"expected a positive integer. Received: filters={self.filters!r}")


@dataclass(frozen=True)
class MobileNetSpec:
    """MobileNetV2, some blocks of which have lambda layers.

    Attributes:
        lambda_blocks: 1-based numbers of the inverted bottlenecks whose depthwise convolution is
            replaced by a lambda layer (D.3.2).
        expand_lambda: whether such a block has a first pointwise convolution, which keeps the
            number of channels (D.3.2). Without it the count is the published 3.21 M (Table 17).
        alpha: width of the network, in parts of the published one.
        lambda_layer: hyper-parameters of the lambda layers.
        batch_norm_momentum: of the moving statistics of all batch normalizations.
        dropout_rate: of the pooled features, before the classifier (E.2).
    """

    lambda_blocks: tuple[int, ...] = ()
    expand_lambda: bool = True
    alpha: float = 1.0
    lambda_layer: LambdaSpec = field(default_factory=LambdaSpec)
    batch_norm_momentum: float = 0.9
    dropout_rate: float = 0.0


def placement(blocks: tuple[int, int, int, int], letters: str) -> tuple[tuple[int, ...], ...]:
    """Blocks with the mixer for a placement such as `"CCLL"`: C convolution, L lambda layer."""
    if not isinstance(letters, str) or len(letters) != len(STAGES) or set(letters) - set("CL"):
        raise ValueError(
            "expected a placement of four letters C (convolution) or L (lambda layer), one for "
            f"each of the stages {STAGES}. Received: placement={letters!r}"
        )
    return tuple(
        tuple(range(1, number + 1)) if letter == "L" else ()
        for number, letter in zip(blocks, letters, strict=True)
    )


# Tables 14 and 18: blocks of c2-c5, then the blocks of c4 with a lambda layer in the LambdaResNet.
DEPTHS = {
    50: ((3, 4, 6, 3), (3,)),
    101: ((3, 4, 23, 3), (6, 12, 18)),
    152: ((3, 8, 36, 3), (5, 10, 15, 20, 25, 30)),
    200: ((3, 24, 36, 3), (5, 10, 15, 20, 25, 30)),
    270: ((4, 29, 53, 4), (8, 16, 24, 32, 40, 48)),
    350: ((4, 36, 72, 4), (10, 20, 30, 40, 50, 60)),
    420: ((4, 44, 87, 4), (10, 20, 30, 40, 50, 60, 70, 80)),
}


RESNET50 = ResNetSpec(DEPTHS[50][0])
RESNET50_PYTORCH = replace(RESNET50, padding="symmetric")
# Table 3's "channel attention" (Hu et al., CVPR 2018).
RESNET50_SE = replace(RESNET50, squeeze_excitation=(True, True, True, True), squeeze_ratio=1 / 16)


def resnet_rs(depth: int, squeeze_excitation: bool = True) -> ResNetSpec:
    """A ResNet-RS (Table 14), with squeeze-and-excitation or without."""
    blocks, _ = DEPTHS[depth]
    c2 = c3 = c4 = c5 = squeeze_excitation
    return ResNetSpec(
        blocks, stem="rs", shortcut="pool", squeeze_excitation=(c2, c3, c4, c5), padding="fixed"
    )


def lambda_resnet(depth: int, all_c4: bool = False) -> ResNetSpec:
    """A LambdaResNet: ResNet-RS with lambda layers in c5 and some blocks of c4 (Table 18).

    With `all_c4` in all blocks of c4, too (the "C4" networks of Tables 14 and 15).
    Squeeze-and-excitation stays in c2 and c3 only: the published sizes fit only so, although the
    text takes it away from the blocks with a lambda layer alone.
    """
    blocks, c4 = DEPTHS[depth]
    _, _, every_c4, every_c5 = placement(blocks, "CCLL")
    return replace(
        resnet_rs(depth),
        mixer_blocks=((), (), every_c4 if all_c4 else c4, every_c5),
        squeeze_excitation=(True, True, False, False),
    )


# Not in the paper: for images of some 32 pixels, for demonstrations and tests.
LAMBDA_RESNET14 = ResNetSpec(
    blocks=(1, 1, 1, 1),
    mixer_blocks=placement((1, 1, 1, 1), "CCLL"),
    stem="small",
    shortcut="pool",
    filters=16,
    padding="fixed",
    lambda_layer=LambdaSpec(scope=7),
)

# Networks of timm (Apache-2.0), which have published weights; not in the paper. Their position
# lambdas are convolutions with a bias, or global embeddings for images of 256 pixels. Bottleneck
# transformers and HaloNets have attention in the same blocks, halos with zeros beyond the map.
_TIMM_26 = ResNetSpec(
    blocks=(2, 2, 2, 2),
    mixer_blocks=((), (), (2,), (1, 2)),
    stem="tiered",
    padding="symmetric",
    lambda_layer=LambdaSpec(scope=9, use_bias=True),
    mixer_pool_size=2,
)
_TIMM_50 = replace(
    _TIMM_26,
    blocks=(3, 4, 6, 3),
    mixer_blocks=((), (4,), (2, 4, 6), (2,)),
    activation="silu",
)
_TIMM_HALO = {
    "num_heads": 8,
    "key_dim": None,
    "block_size": 8,
    "halo_size": 2,
    "mask_padding": False,
    "scale_positions": False,
    "strided_queries": True,
}
TIMM = {
    "lambda_resnet26t": _TIMM_26,
    "lambda_resnet26rpt_256": replace(_TIMM_26, lambda_layer=LambdaSpec(scope=None)),
    "lambda_resnet50ts": _TIMM_50,
    "botnet26t_256": replace(
        _TIMM_26,
        mixer="global",
        mixer_arguments={"num_heads": 4, "key_dim": None, "scale_positions": False},
    ),
    "halonet26t": replace(_TIMM_26, mixer="halo", mixer_arguments=_TIMM_HALO),
    "halonet50ts": replace(
        _TIMM_50,
        mixer="halo",
        mixer_arguments={**_TIMM_HALO, "num_heads": (8, 4, 8, 8), "halo_size": 3},
    ),
}

MOBILENET_V2 = MobileNetSpec()
# Table 17 and D.3.2.
LAMBDA_MOBILENET_V2 = MobileNetSpec(
    lambda_blocks=(10, 16), lambda_layer=LambdaSpec(key_dim=32, scope=5)
)
