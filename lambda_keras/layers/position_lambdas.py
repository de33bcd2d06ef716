"""Position lambdas applied to their queries: one function per implementation.

Every function computes the same thing (Eq. 1 and 2, position part),

    outputs[b, n, h, v] = sum_k queries[b, n, h, k] sum_m,u E[n, m, u, k] values[b, m, v, u]

where `E[n, m] = embeddings[m - n + scope // 2]` inside the scope and 0 outside of it, on a grid of
one, two or three axes. Letters of the paper:

    b batch, n query positions, m context positions, r relative positions (the scope),
    k query/key depth, u intra-depth, v value depth, h heads

`relative_outputs` runs them. The functions of one form take queries `(b, *grid, h, k)`, values
`(b, *grid, v, u)` and embeddings `(*scope, u, k)`, and return `(b, n, h, v)`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from lambda_keras.layers.contraction import contract
from lambda_keras.layers.fourier import fourier
from lambda_keras.layers.tiles import equal_tiles, in_tiles
from lambda_keras.layers.xla import inside_xla

# Up to this many positions dense embeddings are the least work, whatever the scope.
MAX_DENSE_POSITIONS = 256


def flatten_grid(tensor):
    """`(b, *grid, i, j)` -> `(b, n, i, j)`."""
    batch, *_, i, j = ops.shape(tensor)
    return ops.reshape(tensor, (batch, -1, i, j))


def dilate(embeddings, rate: int):
    """Embeddings of a dilated scope (3.4): zeros between the relative positions."""
    if rate == 1:
        return embeddings
    scope = embeddings.shape[:-2]
    for axis, reach in enumerate(scope):
        embeddings = ops.expand_dims(embeddings, axis + 1)
        padding = [(0, 0)] * len(embeddings.shape)
        padding[axis + 1] = (0, rate - 1)
        embeddings = ops.pad(embeddings, padding)
        shape = list(embeddings.shape)
        shape[axis : axis + 2] = [reach * rate]
        embeddings = ops.reshape(embeddings, shape)
        embeddings = ops.take(embeddings, range((reach - 1) * rate + 1), axis=axis)
    return embeddings


def mask_future(embeddings):
    """Zeroes the embeddings of positions after the query's in raster order (B.2)."""
    scope = embeddings.shape[:-2]
    past = np.arange(math.prod(scope)) <= math.prod(scope) // 2
    return embeddings * ops.cast(past.reshape(*scope, 1, 1), embeddings.dtype)


def dense_embeddings(embeddings, query_grid, context_grid, first=None):
    """Reindexes relative embeddings `(*scope, u, k)` into `E` of shape `(n, m, u, k)` (3.3).

    The first query lies at the position `first` of the context, or at its first one.

    Small ones come from products, whose gradient is a product too, and not a scatter. XLA is
    faster at gathering, and large ones would be moved once more.
    """
    known = all(isinstance(size, int) for size in (*query_grid, *context_grid))
    small = known and max(math.prod(query_grid), math.prod(context_grid)) <= MAX_DENSE_POSITIONS
    offsets = [
        _offsets(n, m, reach // 2 - begin)
        for n, m, reach, begin in zip(
            query_grid,
            context_grid,
            embeddings.shape,  # scope, u, k
            first or [0] * len(query_grid),
            strict=False,
        )
    ]
    if small and not inside_xla():
        return _dense_by_products(embeddings, query_grid, context_grid, offsets)
    return _dense_by_gathering(embeddings, query_grid, context_grid, offsets)


def _offsets(n, m, same: int):
    """Index into a scope for each pair of `n` queries and `m` context positions.

    That of the pair of the first ones is `same`.
    """
    context, queries = ops.arange(m, dtype="int32"), ops.arange(n, dtype="int32")
    return context[None, :] - queries[:, None] + same


def _dense_by_products(embeddings, query_grid, context_grid, offsets):
    *scope, u, k = embeddings.shape
    rank = len(scope)
    dense = embeddings
    for axis in reversed(range(rank)):
        offset = ops.reshape(offsets[axis], (-1, 1))
        one_hot = ops.cast(offset == ops.arange(scope[axis], dtype="int32"), dense.dtype)
        dense = ops.reshape(dense, (math.prod(scope[:axis]), scope[axis], -1))
        dense = ops.matmul(one_hot, dense)
    pairs = [size for sizes in zip(query_grid, context_grid, strict=True) for size in sizes]
    dense = ops.reshape(dense, (*pairs, u * k))
    dense = ops.transpose(dense, (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2), 2 * rank))
    return ops.reshape(dense, (math.prod(query_grid), math.prod(context_grid), u, k))


def _dense_by_gathering(embeddings, query_grid, context_grid, offsets):
    # The indices are computed, not stored: a graph holds no constant of size n x m.
    *scope, u, k = embeddings.shape
    rank = len(scope)
    index, inside = 0, True
    for axis, reach in enumerate(scope):
        n, m = query_grid[axis], context_grid[axis]
        # Axes n_1 ... n_rank, m_1 ... m_rank.
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = n, m
        offset = ops.reshape(offsets[axis], shape)
        index = index * reach + offset
        inside = ops.logical_and(inside, ops.logical_and(offset >= 0, offset < reach))
    outside = math.prod(scope)  # Index of the row of zeros that is appended.
    rows = ops.reshape(embeddings, (outside, u * k))
    rows = ops.concatenate([rows, ops.zeros_like(rows[:1])])
    dense = ops.take(rows, ops.reshape(ops.where(inside, index, outside), (-1,)), axis=0)
    return ops.reshape(dense, (math.prod(query_grid), math.prod(context_grid), u, k))


def einsum(queries, values, dense):
    """Figure 3: position lambdas `(b, n, k, v)`, then applied."""
    lambdas = contract("nmuk,bmvu->bnkv", dense, values)
    return contract("bnhk,bnkv->bnhv", queries, lambdas)


def query_first(queries, values, dense):
    """Computes the product in the other order, which never holds the lambdas."""
    mixed = contract("bnhk,nmuk->bnhmu", queries, dense)
    return contract("bnhmu,bmvu->bnhv", mixed, values)


def conv(queries, values, embeddings):
    """Figures 5 and 8: the lambda convolution as an (n+1)-d convolution over (*grid, v).

    There are no 4-d convolutions: on a 3-d grid v is folded into the batch instead.
    """
    *scope, u, k = embeddings.shape
    if len(scope) < 3:
        kernel = ops.reshape(embeddings, (*scope, 1, u, k))
        lambdas = ops.conv(values, kernel, padding="same", data_format="channels_last")
    else:
        batch, *grid, v, _ = ops.shape(values)
        folded = ops.reshape(ops.moveaxis(values, -2, 1), (-1, *grid, u))
        lambdas = ops.conv(folded, embeddings, padding="same", data_format="channels_last")
        lambdas = ops.moveaxis(ops.reshape(lambdas, (batch, v, *grid, k)), 1, -2)
    return contract("bnhk,bnvk->bnhv", flatten_grid(queries), flatten_grid(lambdas))


def depthwise_conv(queries, values, embeddings):
    """Figure 5: the lambda convolution as a depthwise convolution with channel multiplier k."""
    *scope, _, k = embeddings.shape
    batch, *grid, v, _ = ops.shape(values)
    kernel = ops.tile(embeddings, (*(1 for _ in scope), v, 1))
    lambdas = ops.depthwise_conv(
        ops.reshape(values, (batch, *grid, v)), kernel, padding="same", data_format="channels_last"
    )
    lambdas = ops.reshape(lambdas, (batch, -1, v, k))
    return contract("bnhk,bnvk->bnhv", flatten_grid(queries), lambdas)


@dataclass(frozen=True)
class Implementation:
    """One algorithm for position lambdas and its capabilities.

    Attributes:
        outputs: Its function. It takes queries `(b, n, h, k)`, values `(b, m, v, u)` and embeddings
            `(n, m, u, k)` if it is one for any pairs. If not, it takes what is described above.
        any_pairs: Whether embeddings may be absolute or masked ones.
        causal: Whether nothing of the future gets through, by rounding neither.
        intra_depth: Largest intra-depth u.
        axes: Largest number of axes of the grid.
        unknown_grid: Whether sizes of the grid may be unknown.
    """

    outputs: Callable
    any_pairs: bool = False
    causal: bool = True
    intra_depth: float = math.inf
    axes: int = 3
    unknown_grid: bool = True


IMPLEMENTATIONS = {
    "einsum": Implementation(einsum, any_pairs=True),
    "query_first": Implementation(query_first, any_pairs=True),
    "conv": Implementation(conv),
    # Figure 8 has no such form of the intra-depth, and Keras no such convolution of 3 axes.
    "depthwise_conv": Implementation(depthwise_conv, intra_depth=1, axes=2),
    # Rounding of a transform lets the future through, and its matrices are those of one size.
    "fourier": Implementation(fourier, causal=False, unknown_grid=False),
}


def capable(**needs) -> tuple[str, ...]:
    """Names of the implementations that meet the needs, after `"auto"`.

    >>> from lambda_keras.layers.position_lambdas import capable
    >>> capable(causal=True, intra_depth=2)
    ('auto', 'einsum', 'query_first', 'conv')
    """
    able = [
        name
        for name, can in IMPLEMENTATIONS.items()
        if all(getattr(can, attribute) >= need for attribute, need in needs.items())
    ]
    return ("auto", *able)


def relative_outputs(queries, values, embeddings, grid, context_grid, implementation: str):
    """Position outputs by one of the implementations.

    Args:
        queries: Tensor `(b, n, h, k)`.
        values: Tensor `(b, m, v, u)`.
        embeddings: Tensor `(*scope, u, k)`.
        grid: Sizes of the axes that n is made of.
        context_grid: Sizes of the axes that m is made of. Contexts of another size lie beside the
            queries from the first position on.
        implementation: One of `IMPLEMENTATIONS`.

    Returns:
        Tensor `(b, n, h, v)`.
    """
    chosen = IMPLEMENTATIONS[implementation]
    known = known_common_grid(grid, context_grid)
    tiles = dense_tiles(known, embeddings.shape[:-2]) if chosen.outputs is query_first else None
    if chosen.any_pairs and tiles is None:
        dense = dense_embeddings(embeddings, grid, context_grid)
        return chosen.outputs(queries, values, dense)
    embeddings = _within_reach(embeddings, known)
    common = grid
    if grid is not context_grid:
        common = tuple(
            size or ops.maximum(n, m) for size, n, m in zip(known, grid, context_grid, strict=True)
        )
    if implementation == "conv" and len(grid) == 1:
        common = _countable(common, embeddings.shape[-1])
    queries, values = _on_grid(queries, grid, common), _on_grid(values, context_grid, common)
    if tiles is None:
        outputs = chosen.outputs(queries, values, embeddings)
    else:
        outputs = _in_dense_tiles(queries, values, embeddings, common, tiles)
    if common is grid:
        return outputs
    batch, _, h, v = ops.shape(outputs)
    outputs = ops.reshape(outputs, (batch, *common, h, v))
    return flatten_grid(outputs[(slice(None), *(slice(size) for size in grid))])


# Longest side of tiles for dense embeddings, by the number of axes.
MAX_DENSE_TILE = {1: 16, 2: 8, 3: 4}


def dense_tiles(grid, scope) -> list[int] | None:
    """Sizes of tiles in which dense embeddings are less work, `None` if there are none."""
    if None in grid:
        return None
    tiles = [equal_tiles(n, MAX_DENSE_TILE[len(grid)]) for n in grid]
    seen = [size + 2 * (reach // 2) for size, reach in zip(tiles, scope, strict=True)]
    tiles = [n if n <= size else one for n, size, one in zip(grid, seen, tiles, strict=True)]
    seen = [min(n, size) for n, size in zip(grid, seen, strict=True)]
    # Sequences have nothing better: gradients of long convolutions take three times as long.
    least = 1 if len(grid) == 1 else 2
    return tiles if least * math.prod(seen) < math.prod(grid) else None


def _in_dense_tiles(queries, values, embeddings, grid, tiles):
    """`query_first` on a large grid, whose tiles share one table of dense embeddings."""

    def compute(queries, values, around):
        seen = [size + 2 * p for size, p in zip(tiles, around, strict=True)]
        dense = dense_embeddings(embeddings, tiles, seen, around)
        return query_first(flatten_grid(queries), flatten_grid(values), dense)

    reach = [size // 2 for size in embeddings.shape[:-2]]
    return in_tiles(compute, queries, values, grid, tiles, reach)


def _within_reach(embeddings, grid):
    """Crops relative offsets that no query can reach.

    Besides the work, some libraries leave gradients of a kernel unwritten where it sees padding
    only.
    """
    inside = []
    for size, n in zip(embeddings.shape[:-2], grid, strict=True):
        reach = size // 2 if n is None else min(size // 2, n - 1)
        inside.append(slice(size // 2 - reach, size // 2 + reach + 1))
    return embeddings[tuple(inside)]


def _countable(grid, k):
    """A sequence one position longer where oneDNN would divide by zero in the backward pass.

    It counts work as `n * n * (blocks of k)` in 32 bits, which is 0 if n has many factors of two.
    """
    (n,) = grid
    period = 2 ** math.ceil((32 - math.log2(k)) / 2)
    if isinstance(n, int):
        return (n + 1,) if n % period == 0 else grid
    return (n + ops.cast(n % period == 0, "int32"),)


def _on_grid(tensor, grid, common):
    """`(b, n, i, j)` -> `(b, *common, i, j)`, filled up with zeros."""
    batch, _, i, j = ops.shape(tensor)
    tensor = ops.reshape(tensor, (batch, *grid, i, j))
    if common is grid:
        return tensor
    padding = [(0, full - size) for full, size in zip(common, grid, strict=True)]
    return ops.pad(tensor, [(0, 0), *padding, (0, 0), (0, 0)])


def known_common_grid(grid, context_grid) -> tuple[int | None, ...]:
    """Sizes of the grid that queries and context are laid on, `None` where unknown."""
    return tuple(
        max(n, m) if isinstance(n, int) and isinstance(m, int) else None
        for n, m in zip(grid, context_grid, strict=True)
    )


# Most positions in whose training dense embeddings take less time than a large convolution.
MAX_DENSE_IN_TRAINING = 1024

# Longest side of a scope for which no transform is worth it where XLA does not compile, and the
# fewest positions on which a convolution is faster than dense embeddings there.
SMALL_SCOPE, LEAST_FOR_CONV = 11, 100


def fastest(grid, scope, value_dim: int, intra_depth: int, causal: bool, training: bool) -> str:
    """The implementation that `"auto"` takes; `docs/benchmarks` has the measurements behind it.

    * Unknown sizes: `"conv"`.
    * A small scope in inference where convolutions come from a library, that is not in XLA:
      `"depthwise_conv"` for thin values, else `"conv"`.
    * Small grids: `"query_first"`.
    * Sequences: `"query_first"` in tiles. For scopes almost as long or longer `"query_first"` in
      training of short ones, else `"conv"`.
    * Training on maps in TensorFlow outside of XLA: `"query_first"` in tiles for small scopes and
      for causal layers, for the latter without tiles on small ones, too.
    * Causal layers: `"conv"`.
    * Everything else: `"fourier"`.

    Args:
        grid: Sizes of the grid of queries and context, `None` where unknown.
        scope: Numbers of relative positions, one for each axis, dilation included.
        value_dim: Value depth v.
        intra_depth: Intra-depth u.
        causal: Whether the future must not leak, not even by rounding.
        training: Whether a backward pass may follow.

    Returns:
        One of `IMPLEMENTATIONS`.
    """
    if None in grid:
        return "conv"
    can = capable(causal=causal, intra_depth=intra_depth, axes=len(grid))
    positions = math.prod(grid)
    library, small = not inside_xla(), max(scope) <= SMALL_SCOPE
    if library and small and not training and positions > LEAST_FOR_CONV:
        return "depthwise_conv" if value_dim <= 32 and "depthwise_conv" in can else "conv"
    if positions <= MAX_DENSE_POSITIONS:
        return "query_first"
    tiles = dense_tiles(grid, scope) is not None
    few = training and positions <= MAX_DENSE_IN_TRAINING
    if len(grid) == 1 and (tiles or few):
        return "query_first"
    products = (tiles and small) or (causal and (tiles or few))
    tensorflow = library and keras.backend.backend() == "tensorflow"
    if len(grid) == 2 and training and products and tensorflow:
        return "query_first"
    return "fourier" if len(grid) > 1 and "fourier" in can else "conv"
