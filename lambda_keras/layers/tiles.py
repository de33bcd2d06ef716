"""Tiling of grids, so that the work grows in proportion to the grid.

A tile with the positions around it, half a scope or a halo, becomes an example of its own in the
batch. Grids that tiles do not divide are padded with zeros at their ends.
"""

import math

from keras import ops


def in_tiles(compute, queries, values, grid, tiles, reach, strides=1):
    """Computes the position outputs of every tile and joins them: `(b, n, h, v)`.

    `compute` takes queries of tiles `(b, *tile, h, k)`, values `(b, *(tile + 2 around), v, u)` and
    `around`, and returns outputs `(b, n, h, v)`. `around` is `reach`, how far queries see on both
    sides of a tile, or 0 where a tile is as long as the axis. With `strides`, queries are on the
    positions 0, strides, ... of an axis; tiles are multiples of strides, or as long as the axis.
    """
    around = [0 if n == size else p for n, size, p in zip(grid, tiles, reach, strict=True)]
    grid, query_tiles = strided(grid, strides), strided(tiles, strides)
    outputs = compute(tile(queries, query_tiles), tile(values, tiles, around), around)
    outputs = ops.reshape(outputs, (-1, *query_tiles, *ops.shape(outputs)[2:]))
    outputs = untile(outputs, grid, query_tiles)
    return ops.reshape(outputs, (-1, math.prod(grid), *ops.shape(outputs)[-2:]))


def tile(tensor, tiles, reach=None):
    """Cuts a tensor `(b, *grid, ...)` into tiles `(b * tiles, *(tile + 2 reach), ...)`.

    Tiles of an example are in raster order. `reach` is the number of positions that a tile also
    includes on both sides, zeros beyond the grid. Sizes of the grid may be unknown.
    """
    for axis, size in enumerate(tiles, start=1):
        around = reach[axis - 1] if reach else 0
        shape = ops.shape(tensor)
        n = shape[axis]
        if isinstance(n, int) and (n, 0) == (size, around):
            continue
        # Numbers of tiles that the axis, and then the surroundings, reach into.
        count, further = _count(n, size), _count(2 * around, size)
        padding = [(0, 0)] * len(shape)
        padding[axis] = (around, (count + further) * size - n - around)
        tensor = ops.pad(tensor, padding)
        # Maps have five axes at most, because LiteRT has no slices of more.
        tensor = ops.reshape(
            tensor, (-1, *shape[1:axis], count + further, size, *shape[axis + 1 :])
        )
        taken = [size] * further + [2 * around - (further - 1) * size]
        parts = [
            part(part(tensor, axis, first, count), axis + 1, 0, positions)
            for first, positions in enumerate(taken)
        ]
        tensor = parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=axis + 1)
        # The axis of tiles becomes part of the batch.
        tensor = ops.moveaxis(tensor, axis, 1)
        tensor = ops.reshape(tensor, (-1, *ops.shape(tensor)[2:]))
    return tensor


def untile(tensor, grid, tiles):
    """Joins tiles without surroundings: `(b * tiles, *tile, ...)` -> `(b, *grid, ...)`."""
    for axis in reversed(range(len(grid))):
        n, size = grid[axis], tiles[axis]
        if isinstance(n, int) and n == size:
            continue
        count = _count(n, size)
        tensor = ops.reshape(tensor, (-1, count, *ops.shape(tensor)[1:]))
        tensor = ops.moveaxis(tensor, 1, axis + 1)
        shape = ops.shape(tensor)
        merged = (-1, *shape[1 : axis + 1], count * size, *shape[axis + 3 :])
        tensor = ops.reshape(tensor, merged)
        tensor = part(tensor, axis + 1, 0, n)
    return tensor


def on_grid(grid, tiles, reach):
    """Bool `(tiles, 1, 1, m)`: which positions of each tile and its surroundings are on a grid."""
    ones = tile(ops.ones((1, *grid)), tiles, reach)
    return ops.reshape(ones, (-1, 1, 1, math.prod(ones.shape[1:]))) > 0


def _count(length, size):
    return (length + size - 1) // size


def part(tensor, axis: int, first: int, size):
    """Slices `size` positions of a tensor along an axis, from `first` on.

    It splits where sizes are known: on TensorFlow the gradient of a slice takes many times as long.
    """
    length = tensor.shape[axis]
    if isinstance(length, int) and isinstance(size, int):
        ends = [end for end in (first, first + size) if 0 < end < length]
        return ops.split(tensor, ends, axis=axis)[min(first, 1)] if ends else tensor
    return tensor[(*(slice(None),) * axis, slice(first, first + size))]


def every(tensor, strides: int, axes):
    """Positions 0, strides, 2 strides, ... of a tensor along some of its axes."""
    steps = (strides if axis in axes else 1 for axis in range(len(tensor.shape)))
    return tensor[tuple(slice(None, None, step) for step in steps)]


def strided(grid, strides: int) -> tuple:
    """Sizes of a grid after keeping the positions 0, strides, 2 strides, ... of every axis."""
    if strides == 1:
        return tuple(grid)
    return tuple(size if size is None else _count(size, strides) for size in grid)


def equal_tiles(n: int, largest: int, strides: int = 1) -> int:
    """Size of the fewest equal tiles of at most the largest size that cover n positions.

    The size of several tiles is rounded up to a multiple of the strides.
    """
    size = math.ceil(n / math.ceil(n / largest))
    return n if size == n else _count(size, strides) * strides
