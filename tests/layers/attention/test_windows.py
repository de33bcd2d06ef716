"""Blocks and windows of maps against slices of padded arrays."""

import keras
import numpy as np
import pytest

from lambda_keras.layers.attention.windows import (
    join_blocks,
    real_positions,
    split_windows,
)

# Height, width, size of blocks, halo.
CASES = [(8, 4, 4, 1), (7, 5, 3, 2), (2, 3, 4, 1), (6, 6, 2, 5), (5, 4, 1, 3), (4, 6, 2, 0)]


def expected_windows(array, size, halo):
    """Slices of a map with as many zeros around it as any window reaches into."""
    _, height, width, depth = array.shape
    far = [(0, 0), (halo, halo + size), (halo, halo + size), (0, 0)]
    padded = np.pad(array, far)
    windows = np.stack(
        [
            padded[:, i : i + size + 2 * halo, j : j + size + 2 * halo]
            for i in range(0, height, size)
            for j in range(0, width, size)
        ],
        axis=1,
    )
    return windows.reshape(-1, *windows.shape[2:4], depth)


@pytest.mark.parametrize(("height", "width", "size", "halo"), CASES)
def test_windows_are_slices(height, width, size, halo):
    array = np.random.default_rng(0).normal(size=(2, height, width, 3)).astype("float32")
    windows = keras.ops.convert_to_numpy(split_windows(array, size, halo))
    np.testing.assert_array_equal(windows, expected_windows(array, size, halo))
    blocks = keras.ops.convert_to_numpy(split_windows(array, size))
    np.testing.assert_array_equal(blocks, expected_windows(array, size, 0))


@pytest.mark.parametrize(("height", "width", "size", "halo"), CASES)
def test_joined_blocks_are_the_map(height, width, size, halo):
    del halo
    array = np.random.default_rng(0).normal(size=(2, height, width, 3)).astype("float32")
    joined = keras.ops.convert_to_numpy(join_blocks(split_windows(array, size), height, width))
    np.testing.assert_array_equal(joined, array)


@pytest.mark.parametrize(("height", "width", "size", "halo"), CASES)
def test_real_positions_are_on_the_map(height, width, size, halo):
    real = keras.ops.convert_to_numpy(real_positions(height, width, size, halo))
    ones = expected_windows(np.ones((1, height, width, 1)), size, halo)
    np.testing.assert_array_equal(real, ones.reshape(len(ones), 1, 1, -1) > 0)
