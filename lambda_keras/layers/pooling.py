"""Average pooling that agrees on all backends."""

import keras
from keras import ops


def average_pool(inputs, pool_size: int, strides: int):
    """Average pooling with padding "same" that counts real positions only.

    Args:
        inputs: tensor `(batch, *grid, channels)`.
        pool_size: int, width of the window along every axis of the grid.
        strides: int, along every axis of the grid.

    Returns:
        Tensor `(batch, *(grid / strides, rounded up), channels)`.
    """
    if keras.backend.backend() != "torch":
        return ops.average_pool(
            inputs, pool_size, strides, padding="same", data_format="channels_last"
        )
    # Where padding is uneven, Keras repeats the border on torch, and counts it.
    grid = inputs.shape[1:-1]
    totals = [max((-(-size // strides) - 1) * strides + pool_size - size, 0) for size in grid]
    padding = [(0, 0), *[(total // 2, total - total // 2) for total in totals], (0, 0)]

    def pool(tensor):
        return ops.average_pool(
            ops.pad(tensor, padding), pool_size, strides, data_format="channels_last"
        )

    return pool(inputs) / pool(ops.ones_like(inputs[:1, ..., :1]))
