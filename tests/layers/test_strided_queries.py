"""Strided queries: the outputs of the whole layer at every s-th position, and their gradients.

`test_lambda_layer_exact.py` compares them with the reference, in training too, and
`position_lambdas/test_every_implementation.py` each implementation.
"""

import keras
import numpy as np
import pytest
from keras.src import backend
from support import backends, networks

from lambda_keras.applications import LambdaResNet14, count_flops
from lambda_keras.layers import LambdaLayer, RelativePositionEmbedding

SMALL = {"filters": 8, "num_heads": 2, "key_dim": 3, "scope": 5}
# name: (grid, strides, layer arguments).
CASES = {
    "map": ((9, 7), 2, {}),
    "by_three": ((9, 7), 3, {"intra_depth": 2}),
    "sequence": ((11,), 2, {"dilation_rate": 2}),
    "video": ((3, 4, 5), 2, {"scope": (1, 3, 5)}),
    "absolute": ((5, 4), 2, {"position_embedding": "absolute", "multi_query": False}),
    "shared": ((9, 7), 2, {"position_embedding": "shared", "intra_depth": 2}),
    "causal": ((9, 7), 2, {"causal": True, "multi_query": False}),
    "no_positions": ((9, 7), 2, {"position_embedding": None}),
}


def pair(strides, **arguments):
    """A layer of strided queries, and one that has a query at every position."""
    arguments = {**SMALL, **arguments}
    return (
        LambdaLayer(strides=strides, strided_queries=True, **arguments),
        LambdaLayer(**arguments),
    )


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def to_numpy(tensor):
    return keras.ops.convert_to_numpy(tensor)


def assert_near(received, expected):
    assert received.shape == expected.shape
    assert np.abs(received - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("name", CASES)
def test_equals_the_whole_layer_at_these_positions(name):
    """Outputs, and gradients of inputs, weights and shared embeddings."""
    grid, strides, arguments = CASES[name]
    x = normal(2, *grid, 6)
    call = {"mask": np.random.default_rng(1).random((2, *grid)) < 0.8, "training": False}
    inputs = [x]
    if name == "shared":
        table = RelativePositionEmbedding(scope=5, key_dim=3, intra_depth=2)
        inputs.append(to_numpy(table(x)))
    layer, whole = pair(strides, **arguments)
    if name == "shared":  # an argument that is differentiated comes by position
        layer, whole = _Shared(layer), _Shared(whole)
    for one in (layer, whole):
        one.build(x.shape)
    for one, other in zip(layer.variables, whole.variables, strict=True):
        value = np.random.default_rng(2).uniform(0.5, 1.5, one.shape)
        one.assign(value)
        other.assign(value)
    at = (slice(None), *(slice(None, None, strides) for _ in grid))
    shape = layer.compute_output_shape(x.shape)
    cotangent = np.zeros((*x.shape[:-1], 8), "float32")
    cotangent[at] = normal(*shape, seed=3)
    expected = backends.output_and_gradients(whole, inputs, cotangent, **call)
    outputs, by_inputs, by_weights = backends.output_and_gradients(
        layer, inputs, cotangent[at], **call
    )
    assert_near(outputs, expected[0][at])
    scale = max(np.abs(gradient).max() for gradient in expected[2])
    for received, wanted in zip(by_inputs + by_weights, expected[1] + expected[2], strict=True):
        assert received.shape == wanted.shape
        # Some gradients vanish; rounding is then relative to the others.
        assert np.abs(received - wanted).max() <= 1e-5 * max(np.abs(wanted).max(), 0.1 * scale)


class _Shared(keras.layers.Layer):
    """A lambda layer whose shared embeddings are its second input."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.supports_masking = layer, True
        self.compute_output_shape = layer.compute_output_shape

    def build(self, inputs_shape):
        self.layer.build(inputs_shape)
        self.built = True

    def call(self, inputs, embeddings, mask=None, training=None):
        return self.layer(inputs, position_embeddings=embeddings, mask=mask, training=training)


@pytest.mark.parametrize(
    ("implementation", "causal"), [("conv", False), ("query_first", False), ("auto", True)]
)
def test_grid_of_unknown_size(implementation, causal):
    layer, whole = pair(2, implementation=implementation, causal=causal)
    assert layer(keras.Input((None, None, 6))).shape == (None, None, None, 8)
    whole.build((None, None, None, 6))
    whole.set_weights(layer.get_weights())
    x = normal(2, 5, 4, 6)
    expected = to_numpy(whole(x))[:, ::2, ::2]
    received = backends.of_unknown_sizes(layer, x)
    np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-5)


def test_mask_of_the_outputs_is_strided():
    tokens = np.array([[3, 1, 4, 0, 0], [2, 7, 1, 8, 2]])
    embedded = keras.layers.Embedding(9, 6, mask_zero=True)(tokens)
    layer, _ = pair(2)
    np.testing.assert_array_equal(
        to_numpy(backend.get_keras_mask(layer(embedded))), tokens[:, ::2] != 0
    )
    assert backend.get_keras_mask(layer(normal(2, 5, 6))) is None
    model = keras.Sequential([keras.layers.Embedding(9, 6, mask_zero=True), layer, pair(1)[0]])
    longer = np.pad(tokens, [(0, 0), (0, 4)])
    outputs, padded = to_numpy(model(tokens)), to_numpy(model(longer))
    np.testing.assert_allclose(outputs[0, :2], padded[0, :2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outputs[1], padded[1, :3], rtol=1e-5, atol=1e-6)


@pytest.mark.one_backend
def test_flops_of_queries_are_those_of_the_queries_that_there_are():
    h, k, u, v, d, seen = 2, 3, 1, 4, 6, 25
    layer, whole = pair(2)
    counts = [one.count_flops((None, 9, 8, d)) for one in (layer, whole)]
    for found, n in zip(counts, (5 * 4, 9 * 8), strict=True):
        assert found == {
            "projections": 2 * (n * d * h * k + 72 * d * u * (k + v)),
            "content": 2 * (72 * u * k * v + n * h * k * v),
            "position": 2 * (n * seen * u * k * v + n * h * k * v),
        }


@pytest.mark.slow
@pytest.mark.one_backend
@pytest.mark.parametrize("padding", ["fixed", "symmetric"])
def test_networks(padding):
    """The parameters stay, and nothing is pooled after a lambda layer, in PyTorch's padding too."""
    arguments = {"input_shape": (32, 32, 3), "classes": 5, "padding": padding}
    pooled = LambdaResNet14(**arguments)
    in_c5, strided = (
        LambdaResNet14(mixer_arguments={"strided_queries": value}, **arguments)
        for value in ([False, False, False, True], True)
    )
    shapes = [[variable.shape for variable in model.weights] for model in (pooled, strided, in_c5)]
    assert shapes[0] == shapes[1] == shapes[2]
    assert count_flops(strided) < count_flops(in_c5) < count_flops(pooled)
    layers = [strided.get_layer(f"{name}_2_lambda") for name in networks.lambda_blocks(strided)]
    assert [(layer.strides, layer.strided_queries) for layer in layers] == [(2, True)] * 2
    assert not [layer.name for layer in strided.layers if layer.name.endswith("_2_pool")]
    assert strided.output_shape == pooled.output_shape
