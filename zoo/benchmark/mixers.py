"""Layers in the same slot of a network, and what the paper says of their cost (Tables 2 and 4)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zoo.results import RESULTS

if TYPE_CHECKING:
    import keras

LAMBDA = "lambda"  # what the others are compared with
LOCAL_SCOPE = 7
SEQUENCE_SCOPE = 23**2  # as many positions as lambda layers see on a map
WINDOW = 7 + 2 * 3  # of halo attention: a block and its halo
HEADS = 8  # of attention
KEY_DIM = 16  # of lambda layers
DOT_PRODUCT = "dot_product"  # no mixer of networks, because it has no positions

# A ResNet-50 at 224 pixels: sides of the maps of c2 to c5, and numbers of blocks.
STAGES = ((56, 3), (28, 4), (14, 6), (7, 3))
PAPER_BATCH = 128  # of Table 4's memory
GIB = 2**30

Seen = Callable[[tuple[int, ...]], int]


@dataclass(frozen=True)
class Published:
    """A row of Table 4: a ResNet-50 with one kind of layer in all blocks, at 224 pixels.

    Attributes:
        gigabytes: Memory of maps or embeddings, as printed; None: it is not there.
        images_per_second: In inference on 8 TPUv3 cores, float32; None: out of memory.
        top1: On ImageNet in percent; None: out of memory.
    """

    gigabytes: float | None
    images_per_second: int | None
    top1: float | None


@dataclass(frozen=True)
class ComparedMixer:
    """A layer in which the positions of a map, or of a sequence, interact.

    Letters are those of the paper: b batch, n positions, m context positions, r those in the
    scope, d depth, h heads, k key depth of a head; besides them w positions in the window of a
    block, f random features.

    Attributes:
        kind: Name in `lambda_keras.models.mixers.MIXERS`, or `DOT_PRODUCT`.
        arguments: Of the layer, beside those that it has there.
        time: Growth of time by Table 2; what is not in it is counted alike.
        space: Growth of memory beside inputs, outputs and weights, by the same.
        seen: Positions of a grid for each of which a query has a number in a map of attention, or
            a vector in embeddings; None: there is nothing of that kind.
        published: The row of Table 4, if there is one.
    """

    kind: str
    arguments: Mapping[str, Any]
    time: str
    space: str
    seen: Seen | None = None
    published: Published | None = None

    @property
    def is_lambda_layer(self) -> bool:
        """Whether it takes grids of any number of axes."""
        return self.kind in (LAMBDA, "content")

    def layer(self, filters: int, dtype: str) -> "keras.layers.Layer":
        """Returns a new layer. Imports Keras.

        Args:
            filters: Depth of its outputs.
            dtype: Keras dtype policy.
        """
        if self.kind == DOT_PRODUCT:
            from zoo.benchmark.dot_product_attention import DotProductAttention

            return DotProductAttention(filters, num_heads=HEADS, dtype=dtype)
        from lambda_keras.models.mixers import MIXERS

        mixer = MIXERS[self.kind]
        return mixer.layer(filters, **mixer.arguments, **self.arguments, dtype=dtype)

    def network(self, image_size: int) -> str:
        """Returns the ResNet-50 with the layer in all blocks as `zoo.benchmark.networks` reads it.

        Example:
        >>> from zoo.benchmark.mixers import NETWORKS
        >>> NETWORKS["lambda_k8"].network(224)
        'resnet50@224:placement=LLLL:mixer=lambda:key_dim=8'
        """
        arguments = {"placement": "LLLL", "mixer": self.kind, **self.arguments}
        return f"resnet50@{image_size}" + "".join(f":{k}={v}" for k, v in arguments.items())

    def position_bytes(self, grid: tuple[int, ...], batch: int) -> int | None:
        """Returns the memory of maps of attention, or of embeddings, in float32.

        As Table 4 counts them, `b h n m` numbers of attention, `k n m` of lambda layers, however
        they are computed. None if there are neither.

        Example:
        >>> from zoo.benchmark.mixers import MAPS
        >>> MAPS["global"].position_bytes((14, 14), batch=2) == 4 * 2 * 8 * 196**2
        True
        """
        if self.seen is None:
            return None
        embedded = self.kind == LAMBDA
        vectors = self.arguments.get("key_dim", KEY_DIM) if embedded else batch * HEADS
        return 4 * vectors * math.prod(grid) * self.seen(grid)

    def network_gib(self, strided_inputs: bool = False) -> float | None:
        """Returns the same of all layers of a ResNet-50 at 224 pixels, batch 128, in GiB.

        Args:
            strided_inputs: Whether the first layer of c3, c4 and c5, which halves its map
                afterwards, counts with the map that it gets, where it really runs, or with the one
                that it gives. The printed figures are those of the second.
        """
        sides = layer_sides(strided_inputs)
        if self.arguments.get("position_embedding") == "shared":  # by the layers on maps of a size
            sides = list(dict.fromkeys(sides))
        sizes = [self.position_bytes((side, side), PAPER_BATCH) for side in sides]
        return None if self.seen is None else sum(filter(None, sizes)) / GIB


def layer_sides(strided_inputs: bool) -> list[int]:
    """Returns the side of the map of each layer of a ResNet-50 at 224 pixels.

    Example:
    >>> from zoo.benchmark.mixers import layer_sides
    >>> layer_sides(strided_inputs=True)[:8]
    [56, 56, 56, 56, 28, 28, 28, 28]
    """
    sides: list[int] = []
    for side, blocks in STAGES:
        first = sides[-1] if strided_inputs and sides else side
        sides += [first, *[side] * (blocks - 1)]
    return sides


def _attention(
    kind: str, letter: str, seen: Seen, published: Published | None = None, **arguments: Any
) -> ComparedMixer:
    time, space = f"b n {letter} (h k + d)", f"b h n {letter}"
    return ComparedMixer(kind, arguments, time, space, seen, published)


def _published(gigabytes: float | None, **arguments: Any) -> Published:
    """Finds the row of Table 4 of a lambda layer with these arguments."""
    (row,) = (one for one in RESULTS if one.table == "Table 4" and one.arguments == arguments)
    return Published(gigabytes, row.images_per_second, row.top1)


def _lambda(gigabytes: float, **arguments: Any) -> ComparedMixer:
    time, space = "b n m k d/h", "k n m + b n k d/h"
    published = _published(gigabytes, **arguments)
    return ComparedMixer(LAMBDA, arguments, time, space, math.prod, published)


def _lambda_convolution(scope: int, area: int, published: Published | None = None) -> ComparedMixer:
    # Table 2 has k r for the embeddings themselves, Table 4 k n m for those of all queries.
    time, space = "b n r k d/h", "k r + b n k d/h"
    return ComparedMixer(LAMBDA, {"scope": scope}, time, space, lambda _: area, published)


CONTENT = ComparedMixer("content", {}, "b n k d", "b k d/h")
LINEAR = ComparedMixer("linear", {}, "b n k d", "b k d")
FAVOR = ComparedMixer("favor", {}, "b n f d", "b f d")
LOCAL_AREA = LOCAL_SCOPE**2

# Layers on maps; axial attention sees a row and a column.
MAPS = {
    LAMBDA: _lambda(1.9),
    "lambda_conv": _lambda_convolution(
        LOCAL_SCOPE, LOCAL_AREA, _published(None, scope=LOCAL_SCOPE)
    ),
    "content": CONTENT,
    "global": _attention("global", "m", math.prod, Published(120, None, None)),
    "local": _attention("local", "r", lambda _: LOCAL_AREA, Published(None, 440, 77.4)),
    "halo": _attention("halo", "w", lambda _: WINDOW**2),
    "axial": _attention("axial", "√n", sum, Published(4.8, 960, 77.5)),
    "efficient": ComparedMixer("efficient", {}, "b n k d", "b k d"),
    "linear": LINEAR,
    "favor": FAVOR,
}
# Networks besides, which have other lambda layers.
NETWORKS = {
    **MAPS,
    "lambda_k8": _lambda(0.95, key_dim=8),
    "lambda_shared": _lambda(0.63, position_embedding="shared"),
}
# Layers on sequences.
SEQUENCES = {
    LAMBDA: _lambda_convolution(SEQUENCE_SCOPE, SEQUENCE_SCOPE),
    "content": CONTENT,
    "linear": LINEAR,
    "favor": FAVOR,
    DOT_PRODUCT: _attention(DOT_PRODUCT, "m", math.prod),
}
