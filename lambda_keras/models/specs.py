"""The networks of the paper as data. No Keras in here."""

from dataclasses import dataclass, field

STAGES = ("c2", "c3", "c4", "c5")


@dataclass(frozen=True)
class LambdaSpec:
    """Hyper-parameters of the lambda layers of a network; the defaults are those of E.1.

    Attributes:
        num_heads: number of queries per position (h).
        key_dim: query and key depth (k).
        intra_depth: intra-depth (u).
        scope: size of the square neighbourhood of position lambdas, or `None` for all of the map.
    """

    num_heads: int = 4
    key_dim: int = 16
    intra_depth: int = 1
    scope: int | None = 23


@dataclass(frozen=True)
class ResNetSpec:
    """A residual network of bottleneck blocks, some of which have lambda layers.

    Attributes:
        blocks: numbers of bottleneck blocks of the stages c2, c3, c4 and c5.
        lambda_blocks: for each stage, the 1-based numbers of the blocks whose 3x3 convolution is
            replaced by a lambda layer.
        stem: `"v1"` (7x7 convolution and max pooling, He et al., 2015), `"rs"` (three 3x3
            convolutions, then a strided one, ResNet-RS) or `"small"` (one 3x3 convolution
            of stride 1, for images of some 32 pixels, as is usual for CIFAR).
        shortcut: `"conv"` (strided 1x1 convolution) or `"pool"` (average pooling, then 1x1
            convolution: ResNet-D).
        squeeze_excitation: for each stage, whether its convolution blocks have
            squeeze-and-excitation; blocks with a lambda layer never have (E.1).
        filters: bottleneck width of c2, doubled at each stage.
        lambda_layer: hyper-parameters of the lambda layers.
    """

    blocks: tuple[int, int, int, int]
    lambda_blocks: tuple[tuple[int, ...], ...] = ((), (), (), ())
    stem: str = "v1"
    shortcut: str = "conv"
    squeeze_excitation: tuple[bool, bool, bool, bool] = (False, False, False, False)
    filters: int = 64
    lambda_layer: LambdaSpec = field(default_factory=LambdaSpec)


def placement(blocks: tuple[int, int, int, int], letters: str) -> tuple[tuple[int, ...], ...]:
    """Blocks with lambda layers for a placement such as `"CCLL"`: C convolution, L lambda."""
    if not isinstance(letters, str) or len(letters) != len(STAGES) or set(letters) - set("CL"):
        raise ValueError(
            "expected a placement of four letters C (convolution) or L (lambda layer), one for "
            f"each of the stages {STAGES}. Received: placement={letters!r}"
        )
    return tuple(
        tuple(range(1, number + 1)) if letter == "L" else ()
        for number, letter in zip(blocks, letters, strict=True)
    )


def hybrid(blocks: tuple[int, int, int, int], c4: tuple[int, ...]) -> ResNetSpec:
    """A LambdaResNet of Table 18: ResNet-RS with lambda layers in some blocks of c4 and in c5.

    Squeeze-and-excitation stays in c2 and c3 only: the published sizes fit only so, although the
    text takes it away from the blocks with a lambda layer alone.
    """
    return ResNetSpec(
        blocks=blocks,
        lambda_blocks=((), (), c4, tuple(range(1, blocks[3] + 1))),
        stem="rs",
        shortcut="pool",
        squeeze_excitation=(True, True, False, False),
    )


# Table 18. Blocks of c2-c5, then the blocks of c4 with a lambda layer.
LAMBDA_RESNETS = {
    "lambda_resnet50": hybrid((3, 4, 6, 3), (3,)),
    "lambda_resnet101": hybrid((3, 4, 23, 3), (6, 12, 18)),
    "lambda_resnet152": hybrid((3, 8, 36, 3), (5, 10, 15, 20, 25, 30)),
    "lambda_resnet200": hybrid((3, 24, 36, 3), (5, 10, 15, 20, 25, 30)),
    "lambda_resnet270": hybrid((4, 29, 53, 4), (8, 16, 24, 32, 40, 48)),
    "lambda_resnet350": hybrid((4, 36, 72, 4), (10, 20, 30, 40, 50, 60)),
    "lambda_resnet420": hybrid((4, 44, 87, 4), (10, 20, 30, 40, 50, 60, 70, 80)),
}

# Not in the paper: for images of some 32 pixels, for demonstrations and tests.
LAMBDA_RESNET14 = ResNetSpec(
    blocks=(1, 1, 1, 1),
    lambda_blocks=placement((1, 1, 1, 1), "CCLL"),
    stem="small",
    shortcut="pool",
    filters=16,
    lambda_layer=LambdaSpec(scope=7),
)
