"""Grids in tiles, and position lambdas of large grids computed in them."""

import keras
import numpy as np
import pytest
from keras import ops
from support import backends

from lambda_keras.layers import LambdaLayer
from lambda_keras.layers import tiles as tiling
from lambda_keras.layers.position_lambdas import dense, fourier
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
    x = np.random.default_rng(0).normal(size=(2, *grid, 1, 3)).astype("float32")
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
    x = np.random.default_rng(0).normal(size=(2, *grid, 2, 3)).astype("float32")
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
    x = np.random.default_rng(0).normal(size=(2, 7, 5, 3)).astype("float32")
    outputs = in_tiles(ops.convert_to_tensor(x))
    whole, found, visible = (ops.convert_to_numpy(output) for output in outputs)
    np.testing.assert_array_equal(whole, x)
    expected = tile(ops.convert_to_tensor(x[..., None]), tiles, reach)
    np.testing.assert_array_equal(found, ops.convert_to_numpy(expected)[..., 0])
    first, _ = np.split(found[..., 0], 2)
    np.testing.assert_array_equal(visible, first.reshape(len(first), 1, 1, -1) != 0)


def test_equal_tiles():
    assert [equal_tiles(n, 80) for n in (80, 81, 160, 256)] == [80, 41, 80, 64]


CASES = [
    ("fourier", (23, 9), {"scope": 5}),
    ("fourier", (23, 9), {"scope": 5, "intra_depth": 2}),
    ("fourier", (9, 23), {"scope": (7, 3)}),
    ("fourier", (40,), {"scope": 3}),
    ("fourier", (20, 2, 3), {"scope": 3}),
    ("query_first", (40,), {"scope": 3}),
    ("query_first", (40,), {"scope": 5, "causal": True, "intra_depth": 2}),
    ("query_first", (15, 17), {"scope": 3, "causal": True}),
    ("query_first", (15, 3), {"scope": 3}),
    ("query_first", (7, 6, 8), {"scope": 3}),
]


@pytest.mark.parametrize(("name", "grid", "arguments"), CASES)
def test_tiles_equal_the_whole(monkeypatch, name, grid, arguments):
    """Values and gradients; the whole is tested against the equations elsewhere."""
    x = np.random.default_rng(0).normal(size=(2, *grid, 4)).astype("float32")
    cotangent = np.random.default_rng(1).normal(size=(2, *grid, 8)).astype("float32")
    tiled = []

    def outputs(implementation):
        layer = LambdaLayer(
            8, num_heads=2, key_dim=3, implementation=implementation, name="same", **arguments
        )
        keras.utils.set_random_seed(0)
        layer.build(x.shape)
        output, by_inputs, by_weights = backends.output_and_gradients(layer, [x], cotangent)
        return [output, *by_inputs, *by_weights]

    expected = outputs("einsum")
    monkeypatch.setattr(fourier, "MAX_SIZE", 1)
    monkeypatch.setattr(fourier, "MAX_TILE", 6)
    monkeypatch.setattr(dense, "MAX_DENSE_TILE", {1: 8, 2: 4, 3: 2})
    monkeypatch.setattr(tiling, "tile", lambda *given: tiled.append(given) or tile(*given))
    for received, one in zip(outputs(name), expected, strict=True):
        np.testing.assert_allclose(received, one, atol=1e-5 * np.abs(one).max())
    assert len(tiled) == 2  # queries and values


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("grid", "context_grid"), [((40,), (50,)), ((18, 20), (12, 25))])
def test_contexts_of_another_size(monkeypatch, grid, context_grid, training):
    monkeypatch.setattr(fourier, "MAX_SIZE", 1)
    monkeypatch.setattr(fourier, "MAX_TILE", 6)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, *grid, 4)).astype("float32")
    context = rng.normal(size=(2, *context_grid, 5)).astype("float32")
    outputs = []
    for implementation in ("auto", "einsum"):
        keras.utils.set_random_seed(0)
        layer = LambdaLayer(
            8, num_heads=2, key_dim=3, scope=5, implementation=implementation, name="same"
        )
        outputs.append(ops.convert_to_numpy(layer(x, context, training=training)))
    np.testing.assert_allclose(*outputs, atol=1e-5 * np.abs(outputs[0]).max())
