"""Poolings: what is padded, and that it is not seen."""

import itertools

import keras
import numpy as np
import pytest
from support.arrays import to_numpy

from lambda_keras.layers.pooling import SymmetricMaxPooling2D


@pytest.mark.parametrize("size", [(6, 6), (5, 7), (1, 4), (1, 1)])
@pytest.mark.parametrize(
    ("pool_size", "strides", "dtype"),
    [(3, 2, "float32"), (5, 2, "mixed_float16"), (3, 1, "mixed_bfloat16"), (1, 2, "float32")],
)
def test_symmetric_max_pooling_is_that_of_pytorch(size, pool_size, strides, dtype):
    """Windows centred on every so many positions; all values are negative, zeros would show."""
    data = -1 - np.random.default_rng(0).integers(128, size=(2, *size, 3)) / 128  # in half, too
    layer = SymmetricMaxPooling2D(pool_size, strides, dtype=dtype)
    tensor = layer(data)
    assert keras.backend.standardize_dtype(tensor.dtype) == layer.compute_dtype
    outputs, sizes = to_numpy(tensor), [-(-length // strides) for length in size]
    assert outputs.shape == (2, *sizes, 3)
    reach = pool_size // 2
    for position in itertools.product(*map(range, sizes)):
        window = [slice(max(strides * i - reach, 0), strides * i + reach + 1) for i in position]
        expected = data[(slice(None), *window)].max(axis=(1, 2))
        np.testing.assert_array_equal(outputs[(slice(None), *position)], expected)


def test_symmetric_max_pooling_of_unknown_size_and_from_its_config():
    layer = SymmetricMaxPooling2D(5, 3, name="pool")
    copy = SymmetricMaxPooling2D.from_config(layer.get_config())
    assert (copy.pool_size, copy.strides, copy.name) == (5, 3, "pool")
    assert layer(keras.Input((None, None, 4))).shape == (None, None, None, 4)
    assert layer(keras.Input((7, 9, 4))).shape == (None, 3, 3, 4)
