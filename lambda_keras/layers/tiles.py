"""Large grids in tiles: each with what its queries see, so that the work grows with the grid.

A tile and the positions around it, within half a scope, are an example of its own in the batch.
"""

import math

from keras import ops


def tile(tensor, tiles, reach):
    """Cuts the grid of a tensor into tiles, each with its surroundings.

    Args:
        tensor: `(b, *grid, i, j)`.
        tiles: size of a tile along each axis.
        reach: positions on both sides of a tile that belong to it, too; zeros beyond the grid.

    Returns:
        `(b * tiles, *(tile + 2 reach), i, j)`.
    """
    for axis, (size, around) in enumerate(zip(tiles, reach, strict=True), start=1):
        shape = ops.shape(tensor)
        n = shape[axis]
        count = -(-n // size)
        further = -(-2 * around // size)  # tiles that surroundings reach into
        padding = [(0, 0)] * len(shape)
        padding[axis] = (around, (count + further) * size - n - around)
        tensor = ops.pad(tensor, padding)
        tensor = ops.reshape(
            tensor, (-1, *shape[1:axis], count + further, size, *shape[axis + 1 :])
        )
        before = (slice(None),) * axis
        taken = [size] * further + [2 * around - (further - 1) * size]
        parts = [
            tensor[(*before, slice(first, first + count), slice(positions))]
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
        count = -(-n // size)
        tensor = ops.reshape(tensor, (-1, count, *ops.shape(tensor)[1:]))
        tensor = ops.moveaxis(tensor, 1, axis + 1)
        shape = ops.shape(tensor)
        merged = (-1, *shape[1 : axis + 1], count * size, *shape[axis + 3 :])
        tensor = ops.reshape(tensor, merged)
        tensor = tensor[(*[slice(None)] * (axis + 1), slice(n))]
    return tensor


def equal_tiles(n: int, largest: int) -> int:
    """Size of the fewest equal tiles of at most the largest size that cover n positions."""
    return math.ceil(n / math.ceil(n / largest))
