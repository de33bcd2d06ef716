"""The lambda layer as a Keras layer: serialisation, dtypes, shapes, masks, errors."""

import math

import keras
import numpy as np
import pytest
from keras.src import backend, testing
from support import backends, networks

from lambda_keras.layers import (
    LambdaLayer,
    RelativePositionEmbedding,
    position_lambdas,
)
from lambda_keras.layers.content_lambdas import content_outputs

SMALL = {"filters": 8, "num_heads": 2, "key_dim": 3, "scope": 3}

# Layer arguments, shape of one example, numbers of trainable weights and of moving statistics.
VARIANTS = {
    **{
        name: ({"implementation": name}, (4, 5, 6), 8, 4)
        for name in position_lambdas.IMPLEMENTATIONS
    },
    "auto": ({}, (4, 5, 6), 8, 4),
    "global": ({"scope": None}, (4, 5, 6), 8, 4),
    "intra_depth": ({"intra_depth": 2}, (4, 5, 6), 8, 4),
    "multi_head": ({"multi_query": False}, (4, 5, 6), 8, 4),
    "content_only": ({"position_embedding": None}, (4, 5, 6), 7, 4),
    "position_only": ({"use_content": False}, (4, 5, 6), 7, 4),
    "absolute": ({"position_embedding": "absolute"}, (5, 6), 8, 4),
    "causal": ({"causal": True}, (5, 6), 8, 4),
    "strides": ({"strides": 2}, (4, 5, 6), 8, 4),
    "dilation": ({"dilation_rate": 2}, (4, 5, 6), 8, 4),
    "sequence": ({}, (5, 6), 8, 4),
    "video": ({}, (2, 3, 4, 6), 8, 4),
    "softmax_queries": ({"query_normalization": "softmax"}, (4, 5, 6), 6, 2),
    "l2_keys": ({"key_normalization": "l2"}, (4, 5, 6), 8, 4),
    "no_normalization": (
        {"query_normalization": None, "key_normalization": None, "value_normalization": None},
        (4, 5, 6),
        4,
        0,
    ),
    "regularizers": (
        {"kernel_regularizer": "l2", "embeddings_regularizer": "l2"},
        (4, 5, 6),
        8,
        4,
    ),
}


def small(**arguments):
    return LambdaLayer(**{**SMALL, **arguments})


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def to_numpy(tensor):
    return keras.ops.convert_to_numpy(tensor)


class TestAsKerasLayer(testing.TestCase):
    """Keras' own checks: config, build, symbolic and eager shapes, fit, mixed precision."""

    def check(self, name):
        arguments, example, trainable, statistics = VARIANTS[name]
        layer = small(**arguments)
        self.run_layer_test(
            LambdaLayer,
            init_kwargs={**SMALL, **arguments},
            input_shape=(2, *example),
            expected_output_shape=layer.compute_output_shape((2, *example)),
            expected_num_trainable_weights=trainable,
            expected_num_non_trainable_weights=statistics,
            expected_num_seed_generators=0,
            expected_num_losses=4 if name == "regularizers" else 0,
            supports_masking=True,
        )


# On every backend, in CI; `make test-slow` has the rest.
CHOSEN = ("auto", "video", "causal", "multi_head", "absolute")
for name in VARIANTS:

    def check(self, name=name):
        self.check(name)

    if backends.elsewhere([name], CHOSEN) != [name]:
        check = pytest.mark.very_slow(check)
    setattr(TestAsKerasLayer, f"test_{name}", check)


@pytest.mark.parametrize("name", backends.elsewhere(VARIANTS, CHOSEN))
def test_saved_and_loaded_model_gives_the_same_outputs(name, tmp_path):
    arguments, example, *_ = VARIANTS[name]
    inputs = keras.Input(example)
    model = keras.Model(inputs, small(**arguments)(inputs))
    x = normal(2, *example)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(to_numpy(loaded(x)), to_numpy(model(x)))


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16", "bfloat16"])
@pytest.mark.parametrize("implementation", position_lambdas.IMPLEMENTATIONS)
def test_half_precision_is_near_float32(implementation, dtype):
    x = normal(2, 5, 4, 6)
    exact = small(implementation=implementation)
    expected = to_numpy(exact(x))
    layer = small(implementation=implementation, dtype=dtype)
    layer.build(x.shape)
    layer.set_weights(exact.get_weights())
    output = layer(x)
    assert keras.backend.standardize_dtype(output.dtype) == layer.compute_dtype
    output = to_numpy(keras.ops.cast(output, "float32"))
    tolerance = 2e-3 if layer.compute_dtype == "float16" else 3e-2
    assert np.abs(output - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("causal", [False, True])
def test_softmax_of_keys_is_computed_in_float32(causal):
    """4096 keys are 8.03 below the largest; bfloat16 would say 8.0."""
    keys = np.full((1, 4097, 1, 1), -3.0, "float32")  # exact in bfloat16
    keys[:, 0] = 5.03125
    values = np.ones_like(keys)
    values[:, 0] = 0.0
    tensors = [
        keras.ops.cast(array, "bfloat16") for array in (np.ones((1, 4097, 1, 1)), keys, values)
    ]
    outputs = content_outputs(*tensors, causal=causal)
    received = float(keras.ops.cast(outputs[0, -1, 0, 0], "float32"))
    others = 4096 * np.exp(-8.03125)
    assert received == pytest.approx(others / (1 + others), rel=5e-3)


@pytest.mark.parametrize("u", [1, 4])
def test_sums_over_many_keys_in_bfloat16(u):
    """A mean of ones is one. TensorFlow's einsum said 0.82 on CPUs."""
    shapes = (2, 1, 1, 16), (2, 3136, 16, u), (2, 3136, 64, u)
    tensors = [keras.ops.ones(shape, "bfloat16") for shape in shapes]
    outputs = keras.ops.cast(content_outputs(*tensors), "float32")
    np.testing.assert_allclose(keras.ops.convert_to_numpy(outputs), 16.0 * u, rtol=2e-2)


def test_softmax_of_queries_is_computed_in_float32(monkeypatch):
    """Backends may do so themselves for bfloat16; the layer does not rely on it."""
    layer = small(query_normalization="softmax", dtype="bfloat16")
    x = normal(2, 4, 6)
    layer.build(x.shape)
    seen = []
    softmax = keras.ops.softmax
    monkeypatch.setattr(keras.ops, "softmax", lambda x: seen.append(x) or softmax(x))
    layer(x)
    assert [keras.backend.standardize_dtype(tensor.dtype) for tensor in seen] == ["float32"]


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


@pytest.mark.parametrize("implementation", position_lambdas.capable(axes=2, unknown_grid=True))
def test_grid_of_unknown_size(implementation):
    inputs = keras.Input((None, None, 6))
    layer = small(implementation=implementation)
    model = keras.Model(inputs, layer(inputs))
    assert model.output_shape == (None, None, None, 8)
    for size in [(5, 4), (2, 7)]:
        x = normal(2, *size, 6)
        np.testing.assert_allclose(
            model.predict(x, verbose=0), to_numpy(layer(x)), rtol=1e-5, atol=1e-5
        )


def test_auto_looks_at_the_context_too():
    """Queries on a known grid, a context whose size is known only when it comes."""
    inputs, context = keras.Input((18, 17, 6)), keras.Input((None, None, 5))
    layer = small(scope=11)
    model = keras.Model([inputs, context], layer(inputs, context=context))
    x, c = normal(1, 18, 17, 6), normal(1, 19, 4, 5, seed=1)
    expected = small(scope=11, implementation="einsum")
    expected(x, context=c)
    expected.set_weights(layer.get_weights())
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # A graph for any size of the context, as an exported model has.
        shape = tf.TensorSpec((None, None, None, 5))
        call = tf.function(lambda x, c: model([x, c])).get_concrete_function(tf.constant(x), shape)
        received = call(tf.constant(x), tf.constant(c)).numpy()
    else:
        received = model.predict([x, c], verbose=0)
    np.testing.assert_allclose(received, to_numpy(expected(x, context=c)), rtol=1e-4, atol=1e-5)


def test_context_of_unknown_size():
    inputs, context = keras.Input((None, 6)), keras.Input((None, 5))
    layer = small(implementation="conv")
    model = keras.Model([inputs, context], layer(inputs, context=context))
    x, c = normal(2, 4, 6), normal(2, 7, 5, seed=1)
    np.testing.assert_allclose(
        model.predict([x, c], verbose=0), to_numpy(layer(x, context=c)), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("implementation", position_lambdas.IMPLEMENTATIONS)
def test_compiled_training_step(implementation):
    model = keras.Sequential(
        [keras.Input((5, 4, 6)), small(implementation=implementation), keras.layers.Flatten()]
    )
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
    for weights, expected in [
        (layer.query_kernel, (16 * depth) ** -0.5),
        (layer.key_kernel, depth**-0.5),
        (layer.value_kernel, depth**-0.5),
        (layer.position_embeddings, 1.0),
    ]:
        weights = to_numpy(weights)
        assert weights.std() == pytest.approx(expected, rel=0.06)
        assert abs(weights.mean()) < 0.06 * expected
        # Not truncated: a normal draw of thousands has values beyond 2.5 deviations.
        assert np.abs(weights).max() > 2.5 * expected


def test_shared_embeddings_are_counted_saved_and_trained_once(tmp_path):
    inputs = keras.Input((5, 4, 8))
    table = RelativePositionEmbedding(scope=3, key_dim=3)(inputs)
    x = small(position_embedding="shared")(inputs, position_embeddings=table)
    x = small(position_embedding="shared")(x, position_embeddings=table)
    model = keras.Model(inputs, x)
    tables = [variable for variable in model.trainable_variables if "embedding" in variable.path]
    assert [variable.shape for variable in tables] == [(3, 3, 1, 3)]
    model.compile("sgd", "mse")
    model.fit(normal(2, 5, 4, 8), normal(2, 5, 4, 8, seed=1), verbose=0)
    clone = keras.Model.from_config(model.get_config())
    assert len(clone.weights) == len(model.weights)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x = normal(2, 5, 4, 8)
    np.testing.assert_array_equal(to_numpy(loaded(x)), to_numpy(model(x)))


def test_shared_embeddings_equal_own_ones():
    x = normal(2, 5, 4, 6)
    own, shared = small(), small(position_embedding="shared")
    expected = to_numpy(own(x))
    table = RelativePositionEmbedding(scope=3, key_dim=3)
    shared(x, position_embeddings=table(x))
    values = {variable.path.split("/", 1)[1]: variable for variable in own.variables}
    for variable in shared.variables:
        variable.assign(values[variable.path.split("/", 1)[1]])
    table.embeddings.assign(own.position_embeddings)
    np.testing.assert_array_equal(to_numpy(shared(x, position_embeddings=table(x))), expected)


def test_shared_embeddings_train_all_layers():
    """RelativePositionEmbedding has a gradient through each of its layers, global scope too."""
    inputs = keras.Input((3, 4, 8))
    embeddings = RelativePositionEmbedding(scope=None, key_dim=3)
    table = embeddings(inputs)
    assert table.shape == (5, 7, 1, 3)
    branches = [
        small(scope=None, position_embedding="shared")(inputs, position_embeddings=table)
        for _ in range(2)
    ]
    x, cotangent = normal(2, 3, 4, 8), normal(2, 3, 4, 8)
    gradients = []
    for outputs in (*branches, keras.layers.add(branches)):
        model = keras.Model(inputs, outputs)
        _, _, found = backends.output_and_gradients(model, [x], cotangent)
        (index,) = (
            i
            for i, variable in enumerate(model.trainable_variables)
            if variable is embeddings.embeddings
        )
        gradients.append(found[index])
    assert all(np.abs(gradient).max() > 1e-3 for gradient in gradients)
    np.testing.assert_allclose(gradients[0] + gradients[1], gradients[2], rtol=1e-4, atol=1e-5)


def test_padding_mask_of_an_embedding_arrives():
    """Keras' automatic masks: padded tokens change nothing at the others."""
    tokens = np.array([[3, 1, 4, 0, 0], [2, 7, 1, 8, 2]])
    model = keras.Sequential(
        [keras.layers.Embedding(9, 6, mask_zero=True), small(), keras.layers.Dense(2)]
    )
    outputs = to_numpy(model(tokens))
    longer = to_numpy(model(np.pad(tokens, [(0, 0), (0, 3)])))
    np.testing.assert_allclose(outputs[0, :3], longer[0, :3], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outputs[1], longer[1, :5], rtol=1e-5, atol=1e-6)


def test_mask_goes_on_where_the_grid_does():
    """After a strided layer it would be the mask of another grid."""
    tokens = np.array([[3, 1, 4, 0, 0], [2, 7, 1, 8, 2]])
    embedded = keras.layers.Embedding(9, 6, mask_zero=True)(tokens)
    assert backend.get_keras_mask(small(strides=2)(embedded)) is None
    kept = backend.get_keras_mask(small()(embedded))
    np.testing.assert_array_equal(to_numpy(kept), tokens != 0)
    model = keras.Sequential(
        [keras.layers.Embedding(9, 6, mask_zero=True), small(strides=2), small()]
    )
    assert np.isfinite(to_numpy(model(tokens))).all()


@pytest.mark.parametrize("name", VARIANTS)
def test_empty_batch(name):
    """Nothing in, nothing out, in training too, and the statistics stay."""
    arguments, example, *_ = VARIANTS[name]
    layer = small(**arguments)
    for training in (False, True):
        outputs = layer(np.zeros((0, *example), "float32"), training=training)
        assert tuple(outputs.shape) == layer.compute_output_shape((0, *example))
    assert all(np.isfinite(array).all() for array in layer.get_weights())


def test_query_that_sees_nothing_gets_zeros():
    layer = small(query_normalization=None)
    mask = np.ones((4, 4), bool)
    mask[2] = False
    outputs = to_numpy(layer(normal(1, 4, 6), attention_mask=mask))
    assert np.all(outputs[0, 2] == 0)
    assert np.all(outputs[0, 1] != 0)


@pytest.mark.parametrize("arguments", [{"scope": None}, {"position_embedding": "absolute"}])
def test_fixed_grid_fed_another_size(arguments):
    layer = small(**arguments)
    layer(normal(1, 4, 4, 6))
    with pytest.raises(ValueError, match=r"built for.*\(4, 4\).*Received: .*\(2, 8\)"):
        layer(normal(1, 2, 8, 6))


@pytest.mark.one_backend
@pytest.mark.parametrize(("scope", "expected"), [(7, 26), (23, 73), (None, 112)])
def test_standard_deviation_of_a_new_layer(scope, expected):
    """As the docstring has it."""
    keras.utils.set_random_seed(0)
    outputs = LambdaLayer(64, scope=scope)(networks.images(8, 28, 28, 64), training=True)
    assert keras.ops.convert_to_numpy(outputs).std() == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("intra_depth", [1, 4])
@pytest.mark.parametrize("grid", [(24, 20), (256,)], ids=str)
def test_initializer_for_unit_outputs(grid, intra_depth):
    """The one that the docstring names, away from borders."""
    keras.utils.set_random_seed(0)
    unit = keras.initializers.VarianceScaling(1 / intra_depth, "fan_out", "untruncated_normal")
    layer = LambdaLayer(64, scope=7, intra_depth=intra_depth, embeddings_initializer=unit)
    outputs = layer(networks.images(16, *grid, 64), training=True)
    stddev = keras.ops.convert_to_numpy(layer.position_embeddings).std()
    assert stddev == pytest.approx((intra_depth * 16 * 7 ** len(grid)) ** -0.5, rel=0.1)
    inner = outputs[(slice(None), *(slice(3, -3) for _ in grid))]
    of_content = 16 * intra_depth * (1 / 64 + math.e / math.prod(grid))
    received = keras.ops.convert_to_numpy(inner).std()
    assert received == pytest.approx((1 + of_content) ** 0.5, rel=0.1)
