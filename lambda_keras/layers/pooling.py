"""Poolings that agree on all backends, and with PyTorch where its padding differs."""

import keras
from keras import ops

from lambda_keras.layers.base import Layer


def average_pool(inputs, pool_size: int, strides: int):
    """Average pooling of `(batch, *grid, channels)` with padding "same", left out of the means."""
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


@keras.saving.register_keras_serializable(package="lambda_keras")
class SymmetricMaxPooling2D(Layer):
    """Max pooling with the same padding on both sides, as PyTorch has it.

    The padding, half of the odd window, is minus infinity: zeros would exceed negative activations.
    Output sizes of `(batch, height, width, channels)` are rounded up.
    """

    def __init__(self, pool_size: int = 3, strides: int = 2, **kwargs):
        super().__init__(**kwargs)
        self.keep(locals())

    def call(self, inputs):
        reach = (self.pool_size // 2,) * 2
        padded = ops.pad(inputs, [(0, 0), reach, reach, (0, 0)], constant_values=-float("inf"))
        return ops.max_pool(padded, self.pool_size, self.strides, data_format="channels_last")
