"""The rule of `auto`, and the Fourier form where sizes are those of real feature maps."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from support import backends, reference

from lambda_keras.layers import LambdaLayer, position_lambdas
from lambda_keras.layers.position_lambdas import fastest
from lambda_keras.layers.xla import inside_xla

XLA_ALWAYS = keras.backend.backend() == "jax"

# grid, scope, value_dim, intra_depth, causal, training, implementation with and without XLA.
RULE = [
    ((7, 7), (23, 23), 128, 1, False, True, "query_first", "query_first"),
    ((14, 14), (23, 23), 64, 1, False, True, "query_first", "query_first"),
    ((16, 16), (7, 7), 64, 1, False, True, "query_first", "query_first"),
    ((16, 16), (7, 7), 64, 1, False, False, "query_first", "conv"),
    ((7, 7), (7, 7), 64, 1, False, False, "query_first", "query_first"),
    ((28, 28), (23, 23), 32, 1, False, True, "fourier", "fourier"),
    ((28, 28), (7, 7), 32, 1, False, True, "fourier", "query_first"),
    ((24, 24), (11, 11), 32, 1, False, True, "fourier", "fourier"),
    ((28, 28), (7, 7), 32, 1, False, False, "fourier", "depthwise_conv"),
    ((28, 28), (7, 7), 64, 1, False, False, "fourier", "conv"),
    ((28, 28), (7, 7), 32, 4, False, False, "fourier", "conv"),
    ((56, 56), (11, 11), 64, 1, False, False, "fourier", "conv"),
    ((56, 56), (13, 13), 64, 1, False, False, "fourier", "fourier"),
    ((56, 56), (11, 11), 64, 1, False, True, "fourier", "query_first"),
    ((56, 56), (13, 13), 64, 1, False, True, "fourier", "fourier"),
    ((160, 160), (7, 7), 16, 1, False, True, "fourier", "query_first"),
    ((8, 28, 28), (7, 7, 7), 32, 1, False, False, "fourier", "conv"),
    ((8, 28, 28), (7, 7, 7), 32, 1, False, True, "fourier", "fourier"),
    ((28, 28), (23, 23), 32, 1, False, False, "fourier", "fourier"),
    ((28, 28), (23, 23), 32, 1, True, True, "conv", "query_first"),
    ((28, 28), (23, 23), 32, 1, True, False, "conv", "conv"),
    ((40, 40), (23, 23), 32, 1, True, True, "conv", "conv"),
    ((256, 256), (23, 23), 32, 1, True, True, "conv", "query_first"),
    ((8, 28, 28), (7, 7, 7), 32, 1, True, True, "conv", "conv"),
    ((None, 28), (23, 23), 32, 1, False, True, "conv", "conv"),
    ((256, 256), (23, 23), 16, 1, False, True, "fourier", "fourier"),
    ((1000,), (23,), 16, 1, False, True, "query_first", "query_first"),
    ((1000,), (999,), 16, 1, False, False, "conv", "conv"),
    ((1000,), (971,), 16, 1, False, False, "query_first", "query_first"),
    ((1000,), (1999,), 16, 1, True, True, "query_first", "query_first"),
    ((1000,), (1999,), 16, 1, True, False, "conv", "conv"),
    ((2000,), (3999,), 16, 1, True, True, "conv", "conv"),
]


@pytest.mark.parametrize(
    ("grid", "scope", "value_dim", "intra_depth", "causal", "training", "with_xla", "without"), RULE
)
@pytest.mark.parametrize("where", ["xla", "tensorflow", "torch"])
def test_rule_of_auto(
    monkeypatch, where, grid, scope, value_dim, intra_depth, causal, training, with_xla, without
):
    monkeypatch.setattr(position_lambdas, "inside_xla", lambda: where == "xla")
    monkeypatch.setattr(keras.backend, "backend", lambda: where)
    chosen = fastest(grid, scope, value_dim, intra_depth, causal, training)
    # PyTorch has libraries for convolutions, but is slow at products in tiles.
    as_in_xla = where == "xla" or (where == "torch" and training)
    assert chosen == (with_xla if as_in_xla else without)
    assert chosen in position_lambdas.IMPLEMENTATIONS


def test_what_implementations_can_do():
    """`auto` and the others, by what the paper's figures and the mathematics allow."""
    everything = ("auto", "einsum", "query_first", "conv", "depthwise_conv", "fourier")
    dense, local = everything[:3], ("conv",)
    assert position_lambdas.capable() == position_lambdas.capable(axes=2) == everything
    assert position_lambdas.capable(axes=3) == (*dense, *local, "fourier")
    assert position_lambdas.capable(intra_depth=2) == (*dense, *local, "fourier")
    assert position_lambdas.capable(causal=True) == everything[:-1]
    assert position_lambdas.capable(unknown_grid=True) == everything[:-1]
    assert position_lambdas.capable(any_pairs=True) == dense
    assert position_lambdas.capable(causal=True, axes=3) == (*dense, *local)


@pytest.mark.one_backend
def test_table_of_the_docs_says_the_same():
    page = (Path(__file__).parents[2] / "docs/performance.md").read_text()
    rows = re.findall(
        r"^\| `(\w+)` \| .* \| (\w+) \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|$", page, re.M
    )
    says = {True: "yes", False: "no"}
    assert rows == [
        (
            name,
            says[can.any_pairs],
            says[can.causal],
            "any" if can.intra_depth == math.inf else str(can.intra_depth),
            str(can.axes),
            says[can.unknown_grid],
        )
        for name, can in position_lambdas.IMPLEMENTATIONS.items()
    ]


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize(
    ("query_grid", "context_grid", "scope"),
    [((4,), (6,), (5,)), ((3, 5), (4, 2), (3, 7)), ((2, 3, 2), (2, 1, 4), (3, 3, 3))],
)
def test_both_ways_to_dense_embeddings(monkeypatch, query_grid, context_grid, scope, xla):
    """Products and gathering, which XLA is given."""
    monkeypatch.setattr(position_lambdas, "inside_xla", lambda: xla)
    embeddings = np.random.default_rng(0).normal(size=(*scope, 2, 3)).astype("float32")
    expected = reference.embed(embeddings, query_grid, context_grid)
    embeddings = keras.ops.convert_to_tensor(embeddings)
    dense = position_lambdas.dense_embeddings(embeddings, query_grid, context_grid)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(dense), expected)


@pytest.mark.parametrize("jit_compile", [True, False])
def test_inside_xla_follows_jit_compile(jit_compile):
    """It is asked while the layer is traced, in Keras' own training and prediction functions."""
    seen = []

    class Asks(keras.layers.Layer):
        def call(self, inputs):
            seen.append(inside_xla())
            return inputs

    model = keras.Sequential([keras.Input((2,)), Asks(), keras.layers.Dense(1)])
    if keras.backend.backend() == "torch":
        jit_compile = False
    model.compile("sgd", "mse", jit_compile=jit_compile)
    seen.clear()
    model.fit(np.ones((2, 2)), np.ones((2, 1)), verbose=0)
    assert set(seen) == {jit_compile or XLA_ALWAYS}


@pytest.mark.parametrize(
    ("size", "scope"),
    [((28, 28), 7), ((28, 28), 23), ((31, 18), 23), ((13, 18), None), ((56, 56), 23)],
)
def test_fourier_equals_the_convolution_on_feature_maps(size, scope):
    """At real sizes, even and odd periods: rounding stays far below that of half precision."""
    x = np.random.default_rng(0).normal(size=(1, *size, 8)).astype("float32")
    layers = [
        LambdaLayer(8, num_heads=2, key_dim=4, scope=scope, use_content=False, implementation=name)
        for name in ("conv", "fourier")
    ]
    expected = keras.ops.convert_to_numpy(layers[0](x))
    layers[1](x)
    layers[1].set_weights(layers[0].get_weights())
    received = keras.ops.convert_to_numpy(layers[1](x))
    assert np.abs(received - expected).max() <= 1e-5 * np.abs(expected).max()


def test_fourier_does_not_overflow_in_float16():
    """A constant map has a spectrum of one large number."""
    x = np.full((1, 28, 28, 8), 50.0, "float32")
    layer = LambdaLayer(
        8, num_heads=2, scope=7, use_content=False, implementation="fourier", dtype="mixed_float16"
    )
    exact = LambdaLayer(8, num_heads=2, scope=7, use_content=False, implementation="conv")
    exact(x)
    layer(x)
    layer.set_weights(exact.get_weights())
    for batch_norm in (layer.query_batch_norm, exact.query_batch_norm):
        batch_norm.gamma.assign(0.01 * np.ones(batch_norm.gamma.shape))
    expected = keras.ops.convert_to_numpy(exact(x))
    received = keras.ops.convert_to_numpy(keras.ops.cast(layer(x), "float32"))
    assert np.abs(received - expected).max() <= 1e-2 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("grid", "scope", "implementation"),
    [
        (grid, scope, name)
        for grid, scope in [((1, 1), 23), ((1,), 7), ((1, 1, 1), 7)]
        for name in position_lambdas.capable(axes=len(grid))[1:]
        if not position_lambdas.IMPLEMENTATIONS[name].any_pairs
    ],
)
def test_gradients_on_one_position_in_bfloat16(implementation, grid, scope):
    """Most of the scope sees padding only, which some libraries leave unwritten."""
    x = np.random.default_rng(0).normal(size=(4, *grid, 16)).astype("float32")

    def gradients(implementation):
        layer = LambdaLayer(
            16, scope=scope, implementation=implementation, dtype="mixed_bfloat16", name="same"
        )
        keras.utils.set_random_seed(0)
        model = keras.Sequential([layer, keras.layers.Activation("linear", dtype="float32")])
        model.build(x.shape)
        cotangent = np.random.default_rng(1).normal(size=x.shape).astype("float32")
        _, by_inputs, by_weights = backends.output_and_gradients(model, [x], cotangent)
        return by_inputs + by_weights

    for received, expected in zip(gradients(implementation), gradients("einsum"), strict=True):
        assert np.abs(received - expected).max() <= 0.05 * np.abs(expected).max()


def test_convolved_sequences_have_few_factors_of_two():
    """Long contexts are one longer: oneDNN would divide by n * n * blocks of k modulo 2**32."""
    assert position_lambdas._countable((60000,), 16) == (60000,)
    assert position_lambdas._countable((65537,), 64) == (65537,)
    for n, k in [(65536, 1), (65536, 16), (3 * 65536, 16), (32768, 64), (4096, 4096)]:
        (length,) = position_lambdas._countable((n,), k)
        assert length == n + 1
        (length,) = position_lambdas._countable((keras.ops.convert_to_tensor(n, "int32"),), k)
        assert int(length) == n + 1


TRAIN_ON_LONG_SEQUENCES = """
import numpy as np
from support import backends
from lambda_keras.layers import LambdaLayer
for n, k in [(65536, 4), (32768, 64)]:
    layer = LambdaLayer(8, num_heads=1, key_dim=k, scope=3, use_content=False)
    x = np.random.default_rng(0).normal(size=(1, n, 4)).astype("float32")
    layer.build(x.shape)
    output, by_inputs, by_weights = backends.output_and_gradients(
        layer, [x], np.ones((1, n, 8), "float32"), training=True
    )
    assert all(np.isfinite(array).all() for array in [output, *by_inputs, *by_weights])
"""


@pytest.mark.slow
@pytest.mark.skipif(XLA_ALWAYS, reason="XLA does not convolve by oneDNN")
def test_training_on_65536_positions_does_not_end_the_process():
    """In a process of its own, which an arithmetic exception inside a library would kill."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", TRAIN_ON_LONG_SEQUENCES], env=environment, check=False
    )
    assert result.returncode == 0
