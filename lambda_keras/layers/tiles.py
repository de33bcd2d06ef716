"""Large grids in tiles with their surroundings, so that the work grows with the grid.

A tile and the positions around it, within half a scope, are an example of its own in the batch.
"""

import math

from keras import ops


def in_tiles(compute, queries, values, grid, tiles, reach):
    """Computes the position outputs of every tile and joins them: `(b, n, h, v)`.

    Args:
        compute: From the queries of tiles `(b, *tiles, h, k)`, values `(b, *(tile + 2 around), v,
            u)` and `around` to outputs `(b, n, h, v)`.
        queries: Tensor `(b, *grid, h, k)`.
        values: Tensor `(b, *grid, v, u)`.
        grid: Sizes of the axes.
        tiles: Size of a tile along each axis; nothing is around one as long as the axis.
        reach: Positions that queries see on both sides.
    """
    around = [0 if n == size else p for n, size, p in zip(grid, tiles, reach, strict=True)]
    nothing = [0] * len(tiles)
    outputs = compute(tile(queries, tiles, nothing), tile(values, tiles, around), around)
    outputs = ops.reshape(outputs, (-1, *tiles, *ops.shape(outputs)[2:]))
    outputs = untile(outputs, grid, tiles)
    return ops.reshape(outputs, (-1, math.prod(grid), *ops.shape(outputs)[-2:]))


def tile(tensor, tiles, reach):
    """Cuts the grid of a tensor into tiles, each with its surroundings.

    Args:
        tensor: `(b, *grid, i, j)`.
        tiles: Size of a tile along each axis.
        reach: Positions on both sides of a tile that belong to it, too; zeros beyond the grid.

    Returns:
        `(b * tiles, *(tile + 2 reach), i, j)`.
    """
    for axis, (size, around) in enumerate(zip(tiles, reach, strict=True), start=1):
        shape = ops.shape(tensor)
        n = shape[axis]
        if (n, 0) == (size, around):
            continue
        count = -(-n // size)
        further = -(-2 * around // size)  # Number of tiles that the surroundings reach into.
        padding = [(0, 0)] * len(shape)
        padding[axis] = (around, (count + further) * size - n - around)
        tensor = ops.pad(tensor, padding)
        tensor = ops.reshape(
            tensor, (-1, *shape[1:axis], count + further, size, *shape[axis + 1 :])
        )
        taken = [size] * further + [2 * around - (further - 1) * size]
        parts = [
            part(part(tensor, axis, first, count), axis + 1, 0, positions)
            for first, positions in enumerate(taken)
        ]
        tensor = ops.concatenate(parts, axis=axis + 1)
        # The number of the tile goes to the batch.
        tensor = ops.moveaxis(tensor, axis, 1)
        tensor = ops.reshape(tensor, (-1, *ops.shape(tensor)[2:]))
    return tensor


def untile(tensor, grid, tiles):
    """`(b * tiles, *tile, i, j)` -> `(b, *grid, i, j)`, of tiles without surroundings."""
    for axis in reversed(range(len(grid))):
        n, size = grid[axis], tiles[axis]
        if n == size:
            continue
        count = -(-n // size)
        tensor = ops.reshape(tensor, (-1, count, *ops.shape(tensor)[1:]))
        tensor = ops.moveaxis(tensor, 1, axis + 1)
        shape = ops.shape(tensor)
        merged = (-1, *shape[1 : axis + 1], count * size, *shape[axis + 3 :])
        tensor = ops.reshape(tensor, merged)
        tensor = part(tensor, axis + 1, 0, n)
    return tensor


def part(tensor, axis: int, first: int, size):
    """Positions of a tensor along an axis, like a slice.

    A split where sizes are known: on TensorFlow the gradient of a slice takes many times as long.
    """
    length = tensor.shape[axis]
    if isinstance(length, int) and isinstance(size, int):
        ends = [end for end in (first, first + size) if 0 < end < length]
        return ops.split(tensor, ends, axis=axis)[min(first, 1)] if ends else tensor
    return tensor[(*(slice(None),) * axis, slice(first, first + size))]


def equal_tiles(n: int, largest: int) -> int:
    """Size of the fewest equal tiles of at most the largest size that cover n positions."""
    return math.ceil(n / math.ceil(n / largest))
