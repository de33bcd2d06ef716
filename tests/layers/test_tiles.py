"""Grids in tiles: `position_lambdas/test_every_implementation.py` has position lambdas in them."""

import keras
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from keras import ops
from support.arrays import normal, to_numpy

from lambda_keras.layers.tiles import equal_tiles, on_grid, tile, untile

# Size of an axis, of its tiles, and what is seen on both sides of one.
AXES = st.tuples(st.integers(1, 8), st.integers(1, 5), st.integers(0, 5))


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.lists(AXES, min_size=1, max_size=3))
@example([(7, 2, 5)])  # surroundings of several tiles
@example([(5, 5, 0), (8, 3, 1)])
def test_tiles_have_what_is_around_them_and_are_put_together_again(axes):
    grid, tiles, reach = zip(*axes, strict=True)
    x = normal(2, *grid, 1, 3)
    found = to_numpy(tile(ops.convert_to_tensor(x), tiles, reach))
    wide = np.pad(x, [(0, 0), *[(50, 50)] * len(grid), (0, 0), (0, 0)])
    counts = [-(-n // size) for n, size in zip(grid, tiles, strict=True)]
    for number, (one, *place) in enumerate(np.ndindex(2, *counts)):
        sides = [(50 + i * size, size, p) for i, size, p in zip(place, tiles, reach, strict=True)]
        window = [slice(first - p, first + size + p) for first, size, p in sides]
        np.testing.assert_array_equal(found[number], wide[(one, *window)])
    alone = tile(ops.convert_to_tensor(x), tiles, [0] * len(grid))
    np.testing.assert_array_equal(to_numpy(untile(alone, grid, tiles)), x)


@pytest.mark.parametrize("reach", [(1, 1), (5, 0)])
@pytest.mark.parametrize("known", [True, False])
def test_maps_in_tiles(known, reach):
    tiles = (3, 2)

    def in_tiles(x):
        grid = ops.shape(x)[1:3]
        whole = untile(tile(x, tiles), grid, tiles)
        return whole, tile(x, tiles, reach), on_grid(grid, tiles, reach)

    if not known and keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        in_tiles = tf.function(in_tiles, [tf.TensorSpec((None, None, None, 3))])
    x = normal(2, 7, 5, 3)
    whole, found, visible = map(to_numpy, in_tiles(ops.convert_to_tensor(x)))
    np.testing.assert_array_equal(whole, x)
    expected = tile(ops.convert_to_tensor(x[..., None]), tiles, reach)
    np.testing.assert_array_equal(found, to_numpy(expected)[..., 0])
    first, _ = np.split(found[..., 0], 2)
    np.testing.assert_array_equal(visible, first.reshape(len(first), 1, 1, -1) != 0)


def test_equal_tiles():
    assert [equal_tiles(n, 80) for n in (80, 81, 160, 256)] == [80, 41, 80, 64]
