"""The lambda layer as a Keras layer: precision, unknown sizes, masks, initial weights.

`test_every_layer.py` has what all layers do, `test_lambda_layer_exact.py` its equation, and
`tests/bad_inputs/test_layers.py` its errors.
"""

import math

import keras
import numpy as np
import pytest
from keras.src import backend
from support import backends, networks
from support.arrays import assert_near, assert_normal, normal, to_numpy

from lambda_keras.layers import LambdaLayer, RelativePositionEmbedding, position_lambdas
from lambda_keras.layers.content_lambdas import content_lambdas

SMALL = {"filters": 8, "num_heads": 2, "key_dim": 3, "scope": 3}
TOKENS = np.array([[3, 1, 4, 0, 0], [2, 7, 1, 8, 2]])  # 0 is padding


def small(**arguments):
    return LambdaLayer(**{**SMALL, **arguments})


def content_outputs(queries, *tensors, **arguments):
    axes, lambdas = content_lambdas(*tensors, **arguments)
    return keras.ops.einsum(f"bnhk,{axes}->bnhv", queries, keras.ops.cast(lambdas, queries.dtype))


@pytest.mark.parametrize("causal", [False, True])
def test_softmax_of_keys_is_computed_in_float32(causal):
    """4096 keys are 8.03 below the largest; bfloat16 would say 8.0."""
    keys = np.full((1, 4097, 1, 1), -3.0, "float32")  # exact in bfloat16
    keys[:, 0] = 5.03125
    values = np.ones_like(keys)
    values[:, 0] = 0.0
    tensors = [keras.ops.cast(array, "bfloat16") for array in (np.ones_like(keys), keys, values)]
    received = float(to_numpy(content_outputs(*tensors, causal=causal))[0, -1, 0, 0])
    others = 4096 * np.exp(-8.03125)
    assert received == pytest.approx(others / (1 + others), rel=5e-3)


@pytest.mark.parametrize("u", [1, 4])
def test_sums_over_many_keys_in_bfloat16(u):
    """A mean of ones is one. TensorFlow's einsum said 0.82 on CPUs."""
    shapes = (2, 3136, 16, u), (2, 3136, 64, u)
    _, content_lambda = content_lambdas(*[keras.ops.ones(shape, "bfloat16") for shape in shapes])
    np.testing.assert_allclose(to_numpy(content_lambda), u, rtol=2e-2)


@pytest.mark.parametrize("causal", [False, True])
def test_padded_keys_have_no_part_in_the_softmax(causal):
    """One far above the others would leave them no weight."""
    layer = small(position_embedding=None, causal=causal)
    x = normal(1, 5, 6)
    layer.build(x.shape)
    mask = np.array([[True, False, True, True, True]])
    expected = to_numpy(layer(x[:, mask[0]]))
    x[:, 1] = 1e3 * np.sign(to_numpy(layer.key_kernel)[:, 0])
    received = to_numpy(layer(x, mask=mask))[:, mask[0]]
    assert np.abs(expected).min() > 0
    np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("grid", [(18, 17), (18,)])
def test_context_of_unknown_size(grid):
    """`auto` looks at it, too: queries may be on a known grid, on which another is the fastest."""
    layer, exact = small(scope=11), small(scope=11, implementation="einsum")
    x, context = normal(1, *grid, 6), normal(1, *(n + 1 for n in grid), 5, seed=1)
    expected = to_numpy(exact(x, context=context))
    layer.build(x.shape, (1, *(None for _ in grid), 5))
    layer.set_weights(exact.get_weights())
    received = backends.of_unknown_sizes(lambda c: layer(x, context=c), context)
    np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("implementation", position_lambdas.IMPLEMENTATIONS)
def test_compiled_training_step(implementation):
    layers = [small(implementation=implementation), keras.layers.Flatten()]
    model = keras.Sequential([keras.Input((5, 4, 6)), *layers])
    model.compile("sgd", "mse", jit_compile=keras.backend.backend() != "torch")
    before = [to_numpy(variable).copy() for variable in model.trainable_variables]
    history = model.fit(normal(4, 5, 4, 6), normal(4, 160), batch_size=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    for variable, value in zip(model.trainable_variables, before, strict=True):
        assert not np.array_equal(to_numpy(variable), value), variable.path


def test_initialisation():
    """E.1: N(0, (k d)^-1/2) for queries, N(0, d^-1/2) for keys and values, N(0, 1) embeddings."""
    depth = 256
    layer = LambdaLayer(512, key_dim=16, scope=23)
    layer.build((None, 14, 14, depth))
    assert_normal(layer.query_kernel, (16 * depth) ** -0.5)
    for kernel in (layer.key_kernel, layer.value_kernel):
        assert_normal(kernel, depth**-0.5)
    assert_normal(layer.position_embeddings, 1.0)


CAUSAL = {"causal": True, "dilation_rate": 2}
STRIDED = {"strides": 2, "strided_queries": True, "intra_depth": 2}


@pytest.mark.parametrize("arguments", [{}, {"scope": None}, CAUSAL, STRIDED])
def test_shared_embeddings_equal_own_ones(arguments):
    """Outputs, and gradients of inputs, weights and embeddings."""
    x = normal(2, 5, 4, 6)
    own, shared = small(**arguments), small(position_embedding="shared", **arguments)
    own.build(x.shape, x.shape)
    shared.build(x.shape, x.shape)
    sizes = {"scope": arguments.get("scope", 3), "intra_depth": arguments.get("intra_depth", 1)}
    table = RelativePositionEmbedding(key_dim=3, embeddings_regularizer="l2", **sizes)
    table.build(x.shape)
    table.embeddings.assign(own.position_embeddings)
    shared.set_weights(own.get_weights()[1:])
    # The context is given, because an argument that is differentiated comes by position.
    cotangent = normal(*own.compute_output_shape(x.shape), seed=1)
    given = [x, x, to_numpy(table(x))]
    pair = ((own, given[:2]), (shared, given))
    expected, received = (
        [outputs, *by_inputs, *by_weights]
        for outputs, by_inputs, by_weights in (
            backends.output_and_gradients(layer, inputs, cotangent) for layer, inputs in pair
        )
    )
    for one, other in zip(received, expected, strict=True):
        assert_near(one, other)
    (loss,) = table.losses
    squares = (to_numpy(table.embeddings) ** 2).sum()
    assert to_numpy(loss) == pytest.approx(0.01 * squares, rel=1e-5)


@pytest.mark.parametrize("other", [None, "context", "attention_mask"])
def test_padding_mask_of_an_embedding_arrives(other):
    """Alone, and next to other tensors."""
    embedded = keras.layers.Embedding(9, 6, mask_zero=True)(TOKENS)
    values = keras.ops.convert_to_tensor(to_numpy(embedded))  # without a mask
    more = values if other == "context" else keras.ops.ones((5, 5), "bool")
    layer, call = small(), {"training": True} | ({other: more} if other else {})
    expected = layer(values, mask=TOKENS > 0, **call)
    without = layer(values, **call)
    received = to_numpy(layer(embedded, **call))
    np.testing.assert_allclose(received, to_numpy(expected), rtol=1e-5, atol=1e-6)
    assert np.abs(received - to_numpy(without)).max() > 1e-3


def test_mask_goes_on_where_the_grid_does():
    """After pooling it would be the mask of another grid; with strided queries it is strided."""
    embedded = keras.layers.Embedding(9, 6, mask_zero=True)(TOKENS)
    assert backend.get_keras_mask(small(strides=2)(embedded)) is None
    assert backend.get_keras_mask(small()(normal(2, 5, 6))) is None
    for strides in (1, 2):
        layer = small(strides=strides, strided_queries=strides > 1)
        kept = backend.get_keras_mask(layer(embedded))
        np.testing.assert_array_equal(to_numpy(kept), TOKENS[:, ::strides] != 0)


@pytest.mark.one_backend
def test_flops_of_strided_queries_are_those_of_the_queries_that_there_are():
    h, k, u, v, d, seen = 2, 3, 1, 4, 6, 9
    for arguments, n in (({"strides": 2, "strided_queries": True}, 5 * 4), ({}, 9 * 8)):
        assert small(**arguments).count_flops((None, 9, 8, d)) == {
            "projections": 2 * (n * d * h * k + 72 * d * u * (k + v)),
            "content": 2 * (72 * u * k * v + n * h * k * v),
            "position": 2 * (n * seen * u * k * v + n * h * k * v),
        }


def test_query_that_sees_nothing_gets_zeros():
    layer = small(query_normalization=None)
    mask = np.ones((4, 4), bool)
    mask[2] = False
    outputs = to_numpy(layer(normal(1, 4, 6), attention_mask=mask))
    assert np.all(outputs[0, 2] == 0)
    assert np.all(outputs[0, 1] != 0)


@pytest.mark.one_backend
def test_standard_deviation_of_a_new_layer():
    """As the docstring has it."""
    outputs = LambdaLayer(64, scope=7)(networks.images(8, 28, 28, 64), training=True)
    assert to_numpy(outputs).std() == pytest.approx(26, rel=0.05)


@pytest.mark.parametrize("intra_depth", [1, 4])
def test_initializer_for_unit_outputs(intra_depth):
    """The one that the docstring names, away from borders."""
    unit = keras.initializers.VarianceScaling(1 / intra_depth, "fan_out", "untruncated_normal")
    layer = LambdaLayer(64, scope=7, intra_depth=intra_depth, embeddings_initializer=unit)
    outputs = layer(networks.images(16, 24, 20, 64), training=True)
    of_content = 16 * intra_depth * (1 / 64 + math.e / (24 * 20))
    received = to_numpy(outputs[:, 3:-3, 3:-3]).std()
    assert received == pytest.approx((1 + of_content) ** 0.5, rel=0.1)


@pytest.mark.parametrize("implementation", position_lambdas.IMPLEMENTATIONS)
def test_position_lambdas_are_translation_equivariant(implementation):
    """Shifting what stands on an empty background shifts the outputs (3.3)."""
    height, width, down, right = 3, 4, 4, 1
    patch = normal(1, height, width, 4)

    def outputs_of(y, x):
        image = np.zeros((1, 14, 14, 4), "float32")
        image[:, y : y + height, x : x + width] = patch
        return to_numpy(one(image))

    # Without batch normalization of the values an empty background has no values.
    one = small(use_content=False, value_normalization=None, implementation=implementation)
    base, shifted = outputs_of(2, 2), outputs_of(2 + down, 2 + right)
    window = base[:, 1 : 3 + height, 1 : 3 + width]
    moved = shifted[:, 1 + down : 3 + height + down, 1 + right : 3 + width + right]
    assert np.abs(window).max() > 0
    np.testing.assert_allclose(moved, window, atol=1e-5 * np.abs(base).max())


def test_content_lambda_ignores_the_order_of_the_context():
    """Permuting the context elements changes nothing (3.1)."""
    x, context, layer = normal(2, 5, 4), normal(2, 9, 4), small(position_embedding=None)
    expected = to_numpy(layer(x, context=context))
    permuted = context[:, np.random.default_rng(0).permutation(9)]
    np.testing.assert_allclose(to_numpy(layer(x, context=permuted)), expected, atol=1e-5)
