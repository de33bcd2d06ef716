"""Position lambdas applied to their queries: one function per implementation.

Every function computes the same thing (Eq. 1 and 2, position part),

    outputs[b, n, h, v] = sum_k queries[b, n, h, k] sum_m,u E[n, m, u, k] values[b, m, v, u]

where `E[n, m] = embeddings[m - n + scope // 2]` inside the scope and 0 outside of it, on a grid of
one, two or three dimensions. Letters of the paper:

    b batch, n query positions, m context positions, r relative positions (the scope),
    k query/key depth, u intra-depth, v value depth, h heads
"""

import math
from collections.abc import Callable

from keras import ops

APPLY_LAMBDAS = "bnhk,bnkv->bnhv"


def grid_of(tensor, trailing: int = 2) -> tuple:
    """Sizes of the grid axes of a `(batch, *grid, ...)` tensor with `trailing` last axes."""
    return tuple(ops.shape(tensor)[1 : len(tensor.shape) - trailing])


def flatten_grid(tensor):
    """`(b, *grid, i, j)` -> `(b, n, i, j)`."""
    batch, *_, i, j = ops.shape(tensor)
    return ops.reshape(tensor, (batch, -1, i, j))


def dense_embeddings(embeddings, grid: tuple):
    """Reindexes relative embeddings `(*scope, u, k)` into `E` of shape `(n, m, u, k)` (3.3).

    Positions outside of the scope get zeros (3.4). The indices are computed by operations rather
    than stored, so that a graph holds no n x m constant and the sizes may be unknown.
    """
    *scope, u, k = embeddings.shape
    rank = len(scope)
    index, inside = 0, True
    for axis, (size, reach) in enumerate(zip(grid, scope)):
        positions = ops.arange(size, dtype="int32")
        offset = positions[None, :] - positions[:, None] + reach // 2
        # Axes of the result: n_1 ... n_rank, m_1 ... m_rank.
        shape = [1] * (2 * rank)
        shape[axis] = shape[rank + axis] = size
        offset = ops.reshape(offset, shape)
        index = index * reach + offset
        inside = ops.logical_and(inside, ops.logical_and(offset >= 0, offset < reach))
    outside = math.prod(scope)  # the row of zeros appended below
    rows = ops.reshape(embeddings, (outside, u * k))
    rows = ops.concatenate([rows, ops.zeros_like(rows[:1])])
    positions = math.prod(grid)
    dense = ops.take(rows, ops.reshape(ops.where(inside, index, outside), (-1,)), axis=0)
    return ops.reshape(dense, (positions, positions, u, k))


def einsum(queries, values, embeddings):
    """Figures 3 and 5: dense embeddings, masked outside of the scope, and two einsums."""
    dense = dense_embeddings(embeddings, grid_of(values))
    lambdas = ops.einsum("nmuk,bmvu->bnkv", dense, flatten_grid(values))
    return ops.einsum(APPLY_LAMBDAS, flatten_grid(queries), lambdas)


def conv(queries, values, embeddings):
    """Figures 5 and 8: the lambda convolution as an (n+1)-d convolution over (*grid, v).

    There are no 4-d convolutions, so on a 3-d grid v is folded into the batch instead.
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
    return ops.einsum("bnhk,bnvk->bnhv", flatten_grid(queries), flatten_grid(lambdas))


def depthwise_conv(queries, values, embeddings):
    """Figure 5: the lambda convolution as a depthwise convolution with channel multiplier k."""
    *scope, u, k = embeddings.shape
    batch, *grid, v, _ = ops.shape(values)
    if len(scope) > 2 or u > 1:
        raise ValueError(
            "implementation='depthwise_conv' exists on grids of one or two dimensions and for "
            f"intra_depth=1. Received: grid of {len(scope)} dimensions, intra_depth={u}"
        )
    kernel = ops.tile(embeddings, (*(1 for _ in scope), v, 1))
    lambdas = ops.depthwise_conv(
        ops.reshape(values, (batch, *grid, v)), kernel, padding="same", data_format="channels_last"
    )
    lambdas = ops.reshape(lambdas, (batch, -1, v, k))
    return ops.einsum("bnhk,bnvk->bnhv", flatten_grid(queries), lambdas)


IMPLEMENTATIONS: dict[str, Callable] = {
    "einsum": einsum,
    "conv": conv,
    "depthwise_conv": depthwise_conv,
}


def fastest(grid: tuple) -> str:
    """The implementation that `"auto"` takes for a grid (sizes are None where unknown).

    Dense embeddings cost n^2 and win on small grids only (E.1).
    """
    if None in grid or math.prod(grid) > 20**2:
        return "conv"
    return "einsum"
