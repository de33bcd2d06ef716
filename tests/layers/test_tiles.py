"""Grids in tiles: `position_lambdas/test_every_implementation.py` has position lambdas in them."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from keras import ops
from support.arrays import normal, to_numpy

from lambda_keras.layers.tiles import equal_tiles, tile, untile

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


def test_equal_tiles():
    assert [equal_tiles(n, 80) for n in (80, 81, 160, 256)] == [80, 41, 80, 64]
