"""Grids in tiles: `position_lambdas/test_every_implementation.py` has position lambdas in them."""

import keras
import numpy as np
import pytest
from keras import ops
from support.arrays import normal

from lambda_keras.layers.tiles import equal_tiles, on_grid, tile, untile


@pytest.mark.parametrize(
    ("grid", "tiles", "reach"),
    [
        ((7,), (3,), (2,)),
        ((7,), (2,), (5,)),  # surroundings of several tiles
        ((6,), (3,), (0,)),
        ((5, 8), (2, 3), (1, 4)),
        ((5, 8), (5, 3), (0, 1)),
        ((4, 3, 5), (2, 3, 2), (1, 0, 2)),
    ],
)
def test_a_tile_and_what_is_around_it(grid, tiles, reach):
    x = normal(2, *grid, 1, 3)
    found = ops.convert_to_numpy(tile(ops.convert_to_tensor(x), tiles, reach))
    counts = [-(-n // size) for n, size in zip(grid, tiles, strict=True)]
    wide = np.pad(x, [(0, 0), *[(50, 50)] * len(grid), (0, 0), (0, 0)])
    for number, (example, *place) in enumerate(np.ndindex(2, *counts)):
        window = [
            slice(50 + i * size - p, 50 + (i + 1) * size + p)
            for i, size, p in zip(place, tiles, reach, strict=True)
        ]
        np.testing.assert_array_equal(found[number], wide[(example, *window)])


@pytest.mark.parametrize(
    ("grid", "tiles"), [((7,), (3,)), ((5, 8), (2, 3)), ((4, 3, 5), (2, 3, 2))]
)
def test_untile_is_the_inverse(grid, tiles):
    x = normal(2, *grid, 2, 3)
    tiled = tile(ops.convert_to_tensor(x), tiles, [0] * len(grid))
    np.testing.assert_array_equal(ops.convert_to_numpy(untile(tiled, grid, tiles)), x)


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
    outputs = in_tiles(ops.convert_to_tensor(x))
    whole, found, visible = (ops.convert_to_numpy(output) for output in outputs)
    np.testing.assert_array_equal(whole, x)
    expected = tile(ops.convert_to_tensor(x[..., None]), tiles, reach)
    np.testing.assert_array_equal(found, ops.convert_to_numpy(expected)[..., 0])
    first, _ = np.split(found[..., 0], 2)
    np.testing.assert_array_equal(visible, first.reshape(len(first), 1, 1, -1) != 0)


def test_equal_tiles():
    assert [equal_tiles(n, 80) for n in (80, 81, 160, 256)] == [80, 41, 80, 64]
