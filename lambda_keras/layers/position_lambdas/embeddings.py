"""Relative position embeddings `(*scope, u, k)`: dilated, masked, cropped, and for all pairs."""

import math

import numpy as np
from keras import ops

from lambda_keras.layers.position_lambdas.device import device_kind, inside_xla
from lambda_keras.layers.tiles import part, strided

# Up to this many positions, one-hot products are faster than gathering, outside of XLA.
MAX_PRODUCTS = 256


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
        embeddings = part(embeddings, axis, 0, (reach - 1) * rate + 1)
    return embeddings


def mask_future(embeddings):
    """Zeroes the embeddings of positions after the query's in raster order (B.2)."""
    scope = embeddings.shape[:-2]
    past = np.arange(math.prod(scope)) <= math.prod(scope) // 2
    return embeddings * ops.cast(past.reshape(*scope, 1, 1), embeddings.dtype)


def crop_to_reach(embeddings, grid):
    """Crops relative offsets that no query can reach; sizes of the grid are `None` where unknown.

    This saves work. Also, some libraries leave gradients of a kernel unwritten where it sees
    padding only.
    """
    inside = []
    for size, n in zip(embeddings.shape[:-2], grid, strict=True):
        reach = size // 2 if n is None else min(size // 2, n - 1)
        inside.append(slice(size // 2 - reach, size // 2 + reach + 1))
    return embeddings[tuple(inside)]


def toeplitz(embeddings, axis: int, n, m, first: int = 0, strides: int = 1):
    """Replaces an axis of relative positions by pairs of n queries and m context positions.

    Copies of the padded axis are joined and cut into rows that are `strides` elements shorter, so
    each row is shifted by `strides` more. The gradient is a sum; a gather's would be a scatter,
    which adds up in half precision.
    Embeddings `(..., r, ...)` become `(..., n, m, ...)`, zero outside of the scope; the first query
    lies at the position `first` of the context, the others `strides` apart.
    """
    before, after = embeddings.shape[:axis], embeddings.shape[axis + 1 :]
    padding = [(0, 0)] * len(embeddings.shape)
    padding[axis] = (n * strides, m + strides - 1)
    begin, length = embeddings.shape[axis] // 2 - first + strides, n * strides + m
    rows = part(ops.pad(embeddings, padding), axis, begin, length)
    rows = ops.expand_dims(rows, axis)
    rows = ops.broadcast_to(rows, (*before, n, length, *after))
    rows = ops.reshape(rows, (*before, n * length, *after))
    rows = part(rows, axis, 0, n * (length - strides))
    rows = ops.reshape(rows, (*before, n, length - strides, *after))
    return part(rows, axis + 1, (n - 1) * strides, m)


def one_hot_product(embeddings, axis: int, n, m, first: int = 0, strides: int = 1):
    """Computes `toeplitz` as a product with a matrix of zeros and ones."""
    before, (reach, *after) = embeddings.shape[:axis], embeddings.shape[axis:]
    rows = ops.reshape(embeddings, (math.prod(before), reach, math.prod(after)))
    offsets = ops.reshape(_offsets(n, m, reach // 2 - first, strides), (-1, 1))
    one_hot = ops.cast(offsets == ops.arange(reach, dtype="int32"), rows.dtype)
    return ops.reshape(ops.matmul(one_hot, rows), (*before, n, m, *after))


def _offsets(n, m, same: int, strides: int):
    """Index into a scope for each pair of n queries and m context positions, first `same`."""
    context, queries = ops.arange(m, dtype="int32"), ops.arange(n, dtype="int32")
    return context[None, :] - queries[:, None] * strides + same


def dense_embeddings(
    embeddings, query_grid, context_grid, first=None, strides: int = 1, most: int = MAX_PRODUCTS
):
    """Reindexes relative embeddings `(*scope, u, k)` into `E` of shape `(n, m, u, k)` (3.3).

    The first query lies at the position `first` of the context, by default at its first one. With
    `strides`, only the positions 0, strides, ... of an axis of `query_grid` have a query.

    Outside of XLA, embeddings of up to `most` positions come from one-hot products. Others are
    gathered on a CPU, which takes half the time, but only in float32 and float64: the gradient is a
    scatter, which adds up in the dtype of the embeddings. The rest come from `toeplitz`.
    """
    *scope, u, k = embeddings.shape
    rank, first = len(scope), first or [0] * len(scope)
    query_grid = strided(query_grid, strides)
    n, m = math.prod(query_grid), math.prod(context_grid)
    known = isinstance(n, int) and isinstance(m, int)
    small = known and max(n, m) <= most and not inside_xla()
    exact = ops.dtype(embeddings) in ("float32", "float64")
    if not small and exact and device_kind() in ("cpu", "runtime"):
        return _gathered(embeddings, query_grid, context_grid, first, strides)
    dense = embeddings
    for axis in reversed(range(rank)):
        pairs = one_hot_product if small else toeplitz
        dense = pairs(dense, axis, query_grid[axis], context_grid[axis], first[axis], strides)
    order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2), 2 * rank, 2 * rank + 1)
    return ops.reshape(ops.transpose(dense, order), (n, m, u, k))


def _gathered(embeddings, query_grid, context_grid, first, strides):
    # The indices are computed, not stored: a graph holds no constant of size n x m.
    *scope, u, k = embeddings.shape
    rank = len(scope)
    index, inside = 0, True
    for axis, reach in enumerate(scope):
        n, m = query_grid[axis], context_grid[axis]
        # Axes n_1 ... n_rank, m_1 ... m_rank.
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = n, m
        offset = ops.reshape(_offsets(n, m, reach // 2 - first[axis], strides), shape)
        index = index * reach + offset
        inside = ops.logical_and(inside, ops.logical_and(offset >= 0, offset < reach))
    outside = math.prod(scope)  # Index of the appended row of zeros.
    rows = ops.reshape(embeddings, (outside, u * k))
    rows = ops.concatenate([rows, ops.zeros_like(rows[:1])])
    dense = ops.take(rows, ops.reshape(ops.where(inside, index, outside), (-1,)), axis=0)
    return ops.reshape(dense, (math.prod(query_grid), math.prod(context_grid), u, k))
