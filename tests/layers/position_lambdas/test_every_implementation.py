"""Every implementation equals the equation in float64: outputs and gradients, any grid."""

import zlib
from functools import cache

import keras
import numpy as np
import pytest
from support import backends, reference
from support.arrays import assert_near, to_numpy

from lambda_keras.layers import LambdaLayer, tiles
from lambda_keras.layers.position_lambdas import (
    IMPLEMENTATIONS,
    capable,
    compiling_for,
    dense,
    fourier,
    relative_outputs,
    toeplitz_conv,
)
from lambda_keras.layers.tiles import tile

TOLERANCE = 1e-5
# name: (grid, context grid, scope, intra-depth, strides of the queries).
CASES = {
    "even_map": ((4, 6), None, (3, 5), 1),
    "odd_map": ((5, 7), None, (7, 3), 2),
    "in_bands": ((3, 11), None, (3, 5), 2),
    "bands_that_see_several": ((2, 14), None, (1, 11), 1),
    "in_tiles": ((9, 10), None, (3, 5), 1),
    "wide_scope": ((2, 10), None, (1, 25), 1),
    "scope_larger_than_the_map": ((2, 3), None, (9, 11), 2),
    "one_position": ((1, 1), None, (5, 5), 1),
    "sequence": ((11,), None, (5,), 2),
    "sequence_in_tiles": ((23,), None, (3,), 1),
    "video": ((2, 3, 4), None, (3, 1, 5), 2),
    "video_in_bands": ((2, 1, 11), None, (1, 3, 3), 1),
    "longer_context": ((4, 3), (6, 5), (5, 5), 1),
    "other_context": ((3, 10), (4, 7), (3, 3), 2),
    "context_in_tiles": ((9, 8), (6, 11), (3, 5), 1),
}
CASES = {name: (*case, 1) for name, case in CASES.items()} | {
    "strided_even_map": ((4, 6), None, (3, 5), 1, 2),
    "strided_odd_map": ((5, 7), None, (7, 3), 2, 2),
    "strided_by_three": ((7, 8), None, (1, 3), 1, 3),
    "strided_in_bands": ((3, 11), None, (3, 5), 2, 2),
    "strided_in_bands_of_no_divisor": ((2, 20), None, (1, 3), 1, 3),
    "strided_by_more_than_the_map": ((2, 3), None, (9, 11), 2, 5),
    "strided_sequence": ((11,), None, (5,), 2, 2),
    "strided_sequence_in_tiles": ((23,), None, (3,), 1, 3),
    "strided_video": ((2, 3, 5), None, (3, 1, 5), 2, 2),
    "strided_longer_context": ((4, 3), (6, 5), (5, 5), 1, 2),
    "strided_other_context": ((3, 10), (4, 7), (3, 3), 2, 3),
}
EVERY = [
    (case, name)
    for case, (grid, _, _, u, _) in CASES.items()
    for name in capable(axes=len(grid), intra_depth=u)[1:]
]
# Those that compute in another way where XLA compiles.
IN_XLA = [
    (case, name)
    for case in ("odd_map", "longer_context", "sequence", "strided_even_map", "strided_video")
    for name in ("query_first", "dense_matmul", "toeplitz_conv", "fourier")
]


@pytest.fixture(autouse=True)
def tiled(monkeypatch) -> list:
    """As large grids are computed, without large grids; the sizes of the tiles."""
    for module, sizes in {
        toeplitz_conv: {"MAX_WIDTH": 8, "BAND": 4},
        dense: {"MAX_DENSE_TILE": {1: 8, 2: 4, 3: 2}},
        fourier: {"MAX_SIZE": 8, "MAX_TILE": 4},
    }.items():
        for name, value in sizes.items():
            monkeypatch.setattr(module, name, value)
    sizes = []
    monkeypatch.setattr(tiles, "tile", lambda *given: sizes.append(tuple(given[1])) or tile(*given))
    return sizes


def position_outputs(implementation, grid, context_grid, strides=1, **kwargs):
    """`relative_outputs` as a layer of queries, values and embeddings."""
    arguments = (grid, context_grid, implementation, strides)
    return backends.Applied(lambda *tensors: relative_outputs(*tensors, *arguments), **kwargs)


def draw(grid, context_grid, scope, u, strides=1, dtype="float32", b=2, h=2, k=3, v=4):
    """Queries, values, embeddings and a cotangent, rounded to a dtype."""
    n, m = np.prod([-(-size // strides) for size in grid]), np.prod(context_grid)
    rng = np.random.default_rng(zlib.crc32(f"{grid}{scope}".encode()))
    shapes = [(b, n, h, k), (b, m, v, u), (*scope, u, k), (b, n, h, v)]
    tensors = [keras.ops.cast(rng.normal(size=shape).astype("float32"), dtype) for shape in shapes]
    return [*map(to_numpy, tensors)]


def expected_outputs(queries, values, embeddings, grid, context_grid, strides=1):
    dense = reference.embed(embeddings, grid, context_grid)
    queried = np.arange(np.prod(grid)).reshape(grid)[(slice(None, None, strides),) * len(grid)]
    dense = dense[queried.ravel()]
    lambdas = np.einsum("nmuk,bmvu->bnkv", dense, values, optimize=True)
    return np.einsum("bnhk,bnkv->bnhv", queries, lambdas, optimize=True)


@cache
def exact(case):
    """Arguments, inputs, cotangent and outputs of a case; derivatives along random directions."""
    grid, context_grid, *sizes, strides = CASES[case]
    grids = (grid, grid if context_grid is None else context_grid)
    *inputs, cotangent = draw(*grids, *sizes, strides)
    wide = [array.astype("float64") for array in inputs]
    expected, derivatives = expected_outputs(*wide, *grids, strides), []
    for index, array in enumerate(wide):  # Outputs are linear in each input.
        direction = np.random.default_rng(index).normal(size=array.shape)
        along = expected_outputs(*wide[:index], direction, *wide[index + 1 :], *grids, strides)
        derivatives.append((direction, (along * cotangent).sum()))
    return (*grids, strides), inputs, cotangent, expected, derivatives


@pytest.mark.parametrize(("case", "implementation"), EVERY)
def test_outputs_and_gradients(case, implementation):
    arguments, inputs, cotangent, expected, derivatives = exact(case)
    layer = position_outputs(implementation, *arguments)
    outputs, gradients, _ = backends.output_and_gradients(layer, inputs, cotangent)
    assert_near(outputs, expected)
    for gradient, (direction, derivative) in zip(gradients, derivatives, strict=True):
        scale = np.linalg.norm(gradient) * np.linalg.norm(direction)
        assert abs((gradient * direction).sum() - derivative) <= TOLERANCE * scale


@pytest.mark.parametrize(("case", "implementation"), IN_XLA)
def test_orders_of_products_for_xla(case, implementation):
    """The same results outside of XLA, where they are quick to get."""
    with compiling_for("cpu", xla=True):
        test_outputs_and_gradients(case, implementation)


@pytest.mark.parametrize("case", ["odd_map", "longer_context", "in_tiles", "strided_video"])
def test_products_that_runtimes_broadcast(case):
    with compiling_for("runtime"):
        test_outputs_and_gradients(case, "query_first")


@pytest.mark.parametrize("implementation", ["query_first", "fourier"])
def test_large_grids_are_in_tiles(tiled, implementation):
    test_outputs_and_gradients("in_tiles", implementation)
    assert tiled == [(3, 4), (3, 4)]  # of queries and values


@pytest.mark.parametrize("implementation", capable(causal=True, axes=2)[1:])
def test_what_embeddings_hide_stays_hidden(implementation):
    """Zeros among the embeddings let nothing through, by rounding neither."""
    grid, scope = (3, 14), (1, 5)
    queries, values, embeddings, _ = draw(grid, grid, scope, 1)
    embeddings[:, 3:] = 0
    other = values.copy().reshape(2, *grid, 4, 1)
    other[:, :, 9:] = 1e6
    outputs = []
    for one in (values, other.reshape(values.shape)):
        tensors = map(keras.ops.convert_to_tensor, (queries, one, embeddings))
        found = to_numpy(relative_outputs(*tensors, grid, grid, implementation))
        outputs.append(found.reshape(2, *grid, 2, 4)[:, :, :9])
    np.testing.assert_array_equal(*outputs)


@pytest.mark.slow
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_gradient_of_embeddings_in_bfloat16(implementation):
    """On a feature map of 28x28 each embedding sums hundreds of terms."""
    grid = (28, 28)
    *inputs, cotangent = draw(grid, grid, (23, 23), 1, 1, "bfloat16", b=2, h=4, k=4, v=8)
    in_float32 = position_outputs("conv", grid, grid)
    _, (*_, exact), _ = backends.output_and_gradients(in_float32, inputs, cotangent)
    layer = position_outputs(implementation, grid, grid, dtype="mixed_bfloat16")
    _, (*_, received), _ = backends.output_and_gradients(layer, inputs, cotangent)
    # Without bfloat16 instructions, as on Zen 1, TensorFlow adds up in bfloat16: 2 to 3 %.
    by_library = keras.config.backend() == "tensorflow"
    by_library &= not IMPLEMENTATIONS[implementation].any_pairs
    bound = 0.04 if by_library else 0.012
    assert np.linalg.norm(received - exact) <= bound * np.linalg.norm(exact)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grid", "scope", "implementation"),
    [
        *(((1, 1), 23, name) for name in ("conv", "depthwise_conv", "toeplitz_conv", "fourier")),
        ((1,), 7, "conv"),
        ((1, 1, 1), 7, "conv"),
    ],
)
def test_gradients_on_one_position_in_bfloat16(implementation, grid, scope):
    """Most of the scope sees padding only, which some libraries leave unwritten."""
    x = np.random.default_rng(0).normal(size=(4, *grid, 16)).astype("float32")

    def gradients(implementation):
        options = {"implementation": implementation, "dtype": "mixed_bfloat16", "name": "same"}
        layer = LambdaLayer(16, scope=scope, **options)
        keras.utils.set_random_seed(0)
        model = keras.Sequential([layer, keras.layers.Activation("linear", dtype="float32")])
        model.build(x.shape)
        cotangent = np.random.default_rng(1).normal(size=x.shape).astype("float32")
        _, by_inputs, by_weights = backends.output_and_gradients(model, [x], cotangent)
        return by_inputs + by_weights

    for received, expected in zip(gradients(implementation), gradients("einsum"), strict=True):
        assert np.abs(received - expected).max() <= 0.05 * np.abs(expected).max()
