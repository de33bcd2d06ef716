"""Interface of the kinds of position embeddings, and the pairs of positions of a call."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from keras import ops

from lambda_keras.layers import position_lambdas
from lambda_keras.layers.arguments import check
from lambda_keras.layers.content_lambdas import up_to_own
from lambda_keras.layers.tiles import every


class Pairs(NamedTuple):
    """Queries n and context positions m of a call, and which of them see each other."""

    grid: Sequence[Any]  # sizes of the axes of the queries, before strides
    context_grid: Sequence[Any]  # sizes of the axes of the context
    strides: int = 1  # of the queries
    padding: Any = None  # (b, m), false where an example has no context element
    mask: Any = None  # (n, m) or (b, n, m), false where a query does not see a context position
    relations: Any = None  # (n, m) or (b, n, m), integers
    training: bool | None = False

    def queried(self):
        """Raster-order indices of the positions with queries: int `(n,)`."""
        positions = ops.reshape(ops.arange(math.prod(self.grid), dtype="int32"), self.grid)
        return ops.reshape(every(positions, self.strides, range(len(self.grid))), (-1,))


class Positions(ABC):
    """One kind of position embeddings: the sizes of their table, and their position lambdas."""

    # Whether embeddings depend on both positions, not on their offset alone.
    any_pairs = True

    def __init__(self, layer):
        self.layer = layer

    @abstractmethod
    def table(self, grid, context_grid) -> tuple[int, ...] | None:
        """Sizes of the axes of the layer's table before u and k, `None` if it has no own table."""

    @abstractmethod
    def outputs(self, queries, values, embeddings, pairs: Pairs):
        """Position lambdas `E_n^T V` applied to queries `(b, n, h, k)`: `(b, n, h, v)`."""

    @abstractmethod
    def check_call(self, grids, embeddings, relations, shapes):
        """Refuses grids, shared embeddings and relations of a call that do not fit the layer.

        `shapes` are those of pairs of positions: `(n, m)` and `(batch, n, m)`.
        """

    def seen(self, grid, context_grid) -> int:
        """Number of context positions with an embedding for a query, away from borders."""
        del grid
        return math.prod(context_grid)

    def check_built(self, grids):
        """Refuses grids that the layer's table was not built for."""
        built = self.layer.built_grids
        expected = (
            f"grids of inputs and context that the position embeddings were built for, {built}"
        )
        check(grids == built, expected, grids=grids)

    def outputs_of_pairs(self, queries, values, embeddings, pairs: Pairs):
        """`outputs` for embeddings `(n, m, u, k)`, or `(r, u, k)` if there are relations."""
        mask = pairs.mask
        if self.any_pairs and self.layer.causal:
            past = up_to_own(pairs.queried(), *map(math.prod, (pairs.grid, pairs.context_grid)))
            mask = past if mask is None else ops.logical_and(mask, past)
            pairs = pairs._replace(mask=mask)
        implementation = self.implementation(values, pairs, None)
        return position_lambdas.pair_outputs(
            queries, values, embeddings, implementation, mask, pairs.relations
        )

    def implementation(self, values, pairs: Pairs, scope) -> str:
        """The implementation of the layer, or for `"auto"` the fastest one."""
        layer = self.layer
        if layer.implementation != "auto":
            return layer.implementation
        return position_lambdas.fastest(
            position_lambdas.known_common_grid(pairs.grid, pairs.context_grid),
            scope,
            layer.value_dim,
            bool(pairs.training),
            values.shape[0],
            pairs.strides,
            layer.num_heads // layer.groups,
            causal=layer.causal,
            intra_depth=layer.intra_depth,
            own_pairs=vary_by_example(pairs.mask, pairs.relations),
        )


def vary_by_example(*pairs) -> bool:
    """Whether each example has a mask or relations of its own, `(b, n, m)`."""
    return any(tensor is not None and len(tensor.shape) == 3 for tensor in pairs)
