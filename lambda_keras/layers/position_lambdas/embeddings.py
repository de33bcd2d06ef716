"""Relative position embeddings `(*scope, u, k)`: dilated, masked, cropped, and for all pairs."""

import math

import numpy as np
from keras import ops

from lambda_keras.layers.tiles import part


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
    """Crops relative offsets that no query can reach on a grid of known sizes, or `None`.

    Besides the work, some libraries leave gradients of a kernel unwritten where it sees padding
    only.
    """
    inside = []
    for size, n in zip(embeddings.shape[:-2], grid, strict=True):
        reach = size // 2 if n is None else min(size // 2, n - 1)
        inside.append(slice(size // 2 - reach, size // 2 + reach + 1))
    return embeddings[tuple(inside)]


def toeplitz(embeddings, axis: int, n, m, first: int = 0):
    """Replaces an axis of relative positions by pairs of n queries and m context positions.

    Copies of the padded axis, joined and cut one element shorter, are shifted by one more each.
    The gradient is a sum, where a gather has a scatter, which adds up in half precision.

    Args:
        embeddings: Tensor `(..., r, ...)`.
        axis: Its axis of relative positions.
        n: Number of queries.
        m: Number of context positions.
        first: Position of the first query in the context.

    Returns:
        Tensor `(..., n, m, ...)`, zero outside of the scope.
    """
    before, after = embeddings.shape[:axis], embeddings.shape[axis + 1 :]
    padding = [(0, 0)] * len(embeddings.shape)
    padding[axis] = (n, m)
    begin = embeddings.shape[axis] // 2 - first + 1
    rows = part(ops.pad(embeddings, padding), axis, begin, n + m)
    rows = ops.expand_dims(rows, axis)
    rows = ops.broadcast_to(rows, (*before, n, n + m, *after))
    rows = ops.reshape(rows, (*before, n * (n + m), *after))
    rows = part(rows, axis, 0, n * (n + m - 1))
    rows = ops.reshape(rows, (*before, n, n + m - 1, *after))
    return part(rows, axis + 1, n - 1, m)


def dense_embeddings(embeddings, query_grid, context_grid, first=None):
    """Reindexes relative embeddings `(*scope, u, k)` into `E` of shape `(n, m, u, k)` (3.3).

    The first query lies at the position `first` of the context, or at its first one.
    """
    rank = len(query_grid)
    u, k = embeddings.shape[-2:]
    dense = embeddings
    for axis in reversed(range(rank)):
        begin = first[axis] if first else 0
        dense = toeplitz(dense, axis, query_grid[axis], context_grid[axis], begin)
    order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2), 2 * rank, 2 * rank + 1)
    dense = ops.transpose(dense, order)  # (*query grid, *context grid, u, k)
    return ops.reshape(dense, (math.prod(query_grid), math.prod(context_grid), u, k))
