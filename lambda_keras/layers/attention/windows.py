"""Maps in blocks of queries, each with the window of context positions that it sees.

A window is its block with a halo around it, which overlaps with the blocks beside it. Maps that
blocks do not divide are padded with zeros at their ends. Sizes of maps may be unknown.

Letters: b batch, x blocks in raster order, i and j rows and columns of a block, p and q of a
window, c channels.
"""

from keras import ops

from lambda_keras.layers.tiles import part


def split_windows(tensor, size: int, halo: int = 0):
    """`(b, height, width, c)` -> `(b x, p, q, c)` with `p = q = size + 2 halo`."""
    window, depth = size + 2 * halo, tensor.shape[-1]
    tensor = _cut(tensor, 1, size, halo)  # (b, rows, p, width, c)
    # Five axes at most, because LiteRT has no slices of more.
    tensor = ops.reshape(tensor, (-1, window, ops.shape(tensor)[3], depth))
    tensor = ops.transpose(_cut(tensor, 2, size, halo), (0, 2, 1, 3, 4))
    return ops.reshape(tensor, (-1, window, window, depth))


def join_blocks(tensor, height, width):
    """`(b x, i, j, c)` -> `(b, height, width, c)`, without what was padded."""
    _, i, j, depth = ops.shape(tensor)
    rows, columns = _count(height, i), _count(width, j)
    tensor = ops.transpose(ops.reshape(tensor, (-1, columns, i, j, depth)), (0, 2, 1, 3, 4))
    tensor = ops.reshape(tensor, (-1, rows * i, columns * j, depth))
    return part(part(tensor, 1, 0, height), 2, 0, width)


def real_positions(height, width, size: int, halo: int):
    """Bool tensor `(x, 1, 1, m)`: which positions of each window are on the map."""
    windows = split_windows(ops.ones((1, height, width, 1)), size, halo)
    _, p, q, _ = windows.shape
    return ops.reshape(windows, (-1, 1, 1, p * q)) > 0


def _cut(tensor, axis, size, halo):
    """Cuts an axis into overlapping windows: `(..., length, ...)` -> `(..., count, window, ...)`.

    Windows are put together from whole blocks, few slices however long the axis is.
    """
    *before, length = ops.shape(tensor)[: axis + 1]
    after = ops.shape(tensor)[axis + 1 :]
    count, further = _count(length, size), _count(2 * halo, size)
    padding = [(0, 0)] * len(tensor.shape)
    padding[axis] = (halo, (count + further) * size - halo - length)
    blocks = ops.reshape(ops.pad(tensor, padding), (*before, count + further, size, *after))
    parts = [
        part(
            part(blocks, axis, start, count), axis + 1, 0, min(size, size + 2 * halo - start * size)
        )
        for start in range(further + 1)
    ]
    return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=axis + 1)


def _count(length, size):
    return (length + size - 1) // size
