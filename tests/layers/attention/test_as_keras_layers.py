"""The attention layers as Keras layers: serialisation, dtypes, shapes, training."""

import itertools

import keras
import numpy as np
import pytest
from keras.src import testing
from support import backends

from lambda_keras.layers import (
    AugmentedConvolution,
    AxialAttention,
    DoubleAttention,
    GlobalAttention,
    HaloAttention,
    LinearAttention,
    LocalAttention,
)

SMALL = {"filters": 8, "num_heads": 2}
HALO = {"block_size": 2, "halo_size": 1}
# Layer, its arguments, numbers of trainable and other weights.
VARIANTS = {
    "global": (GlobalAttention, {}, 5, 0),
    "global_strides_and_regularizers": (
        GlobalAttention,
        {"strides": 2, "kernel_regularizer": "l2", "embeddings_regularizer": "l2"},
        5,
        0,
    ),
    "local": (LocalAttention, {"scope": 3}, 5, 0),
    "local_zeros_and_strides": (
        LocalAttention,
        {"scope": 3, "mask_padding": False, "strides": 2},
        5,
        0,
    ),
    "halo": (HaloAttention, {**HALO, "mask_padding": False, "output_projection": True}, 6, 0),
    "halo_strided_queries": (
        HaloAttention,
        {**HALO, "strides": 2, "strided_queries": True},
        5,
        0,
    ),
    "axial": (AxialAttention, {"strides": 2, "output_projection": True}, 45, 32),
    "augmented": (AugmentedConvolution, {"value_filters": 4, "strides": 2}, 7, 0),
    "augmented_regularizers": (AugmentedConvolution, {"kernel_regularizer": "l2"}, 7, 0),
    "softmax": (LinearAttention, {"multi_query": True}, 3, 0),
    "elu": (LinearAttention, {"feature_map": "elu", "strides": 2}, 3, 0),
    "favor": (LinearAttention, {"feature_map": "favor", "num_features": 6}, 3, 1),
    "relu": (LinearAttention, {"feature_map": "relu", "num_features": 6, "seed": 3}, 3, 1),
}
FIXED_MAP = (AugmentedConvolution, AxialAttention, GlobalAttention)
ANY_MAP = [name for name, (layer, *_) in VARIANTS.items() if layer not in FIXED_MAP]
CHOSEN = ("global", "local", "halo_strided_queries", "axial", "augmented", "softmax", "favor")
# Their parts are those of the others: halo has local's windows, global axial's tables.
EVERYWHERE = ("global", "halo_strided_queries", "softmax", "favor")
SOME = backends.elsewhere(CHOSEN, EVERYWHERE)
EXAMPLE = (5, 4, 6)


def small(name, **arguments):
    layer, own, *_ = VARIANTS[name]
    return layer(**{**SMALL, **own, **arguments})


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def to_numpy(tensor):
    return keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))


class TestAsKerasLayer(testing.TestCase):
    """Keras' own checks: config, build, symbolic and eager shapes, fit, mixed precision."""

    def check(self, name):
        layer, arguments, trainable, others = VARIANTS[name]
        self.run_layer_test(
            layer,
            init_kwargs={**SMALL, **arguments},
            input_shape=(2, *EXAMPLE),
            expected_output_shape=small(name).compute_output_shape((2, *EXAMPLE)),
            expected_num_trainable_weights=trainable,
            expected_num_non_trainable_weights=others,
            expected_num_seed_generators=0,
            expected_num_losses=5 if "regularizers" in name else 0,
            supports_masking=False,
        )


for name in VARIANTS:

    def check(self, name=name):
        self.check(name)

    if backends.elsewhere([name], EVERYWHERE) != [name]:
        check = pytest.mark.very_slow(check)
    setattr(TestAsKerasLayer, f"test_{name}", check)


@pytest.mark.parametrize("name", SOME)
def test_saved_and_loaded_model_gives_the_same_outputs(name, tmp_path):
    inputs = keras.Input(EXAMPLE)
    model = keras.Model(inputs, small(name)(inputs))
    x = normal(2, *EXAMPLE)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))


def test_config_has_every_argument():
    """Arguments of the base classes, too, and values that are not the defaults."""
    layer = HaloAttention(
        12,
        num_heads=3,
        key_dim=5,
        strides=2,
        multi_query=True,
        output_projection=True,
        block_size=4,
        halo_size=1,
        mask_padding=False,
        scale_positions=False,
        strided_queries=True,
        kernel_initializer="zeros",
        embeddings_initializer="ones",
        kernel_regularizer="l2",
        embeddings_regularizer="l1",
        name="halo",
    )
    copy = HaloAttention.from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    assert (copy.key_dim, copy.halo_size, copy.strided_queries, copy.name) == (5, 1, True, "halo")
    assert isinstance(copy.embeddings_initializer, keras.initializers.Ones)
    assert isinstance(copy.embeddings_regularizer, keras.regularizers.L1)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16", "bfloat16"])
@pytest.mark.parametrize("name", [*SOME, "elu", "relu"])
def test_half_precision_is_near_float32(name, dtype):
    x = normal(2, *EXAMPLE)
    exact = small(name)
    expected = to_numpy(exact(x))
    layer = small(name, dtype=dtype)
    layer.build(x.shape)
    layer.set_weights(exact.get_weights())
    output = layer(x)
    assert keras.backend.standardize_dtype(output.dtype) == layer.compute_dtype
    tolerance = 5e-3 if layer.compute_dtype == "float16" else 5e-2
    assert np.abs(to_numpy(output) - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("name", SOME[:-1])
def test_softmax_is_computed_in_float32(name, monkeypatch):
    """Backends may do so themselves for bfloat16; the layers do not rely on it."""
    layer = small(name, dtype="bfloat16")
    layer.build((2, *EXAMPLE))
    seen = []
    softmax = keras.ops.softmax
    monkeypatch.setattr(
        keras.ops, "softmax", lambda x, axis: seen.append(x.dtype) or softmax(x, axis=axis)
    )
    layer(normal(2, *EXAMPLE))
    assert seen
    assert {keras.backend.standardize_dtype(dtype) for dtype in seen} == {"float32"}


@pytest.mark.parametrize("feature_map", ["elu", "favor", "relu"])
def test_many_positions_stay_in_the_range_of_float16(feature_map):
    """Sums of their features do not: 4096 positions of some 30 are above 65504."""
    layer = LinearAttention(8, num_heads=1, feature_map=feature_map, dtype="float16")
    layer.build((1, 64, 64, 8))
    exact = LinearAttention(8, num_heads=1, feature_map=feature_map)
    exact.build((1, 64, 64, 8))
    kernels = [8 * np.eye(8), 8 * np.eye(8), np.eye(8)]
    layer.set_weights([*kernels, *layer.get_weights()[3:]])
    exact.set_weights([*kernels, *exact.get_weights()[3:]])
    x = 2 + 0.1 * normal(1, 64, 64, 8)
    expected = to_numpy(exact(x))
    assert np.abs(to_numpy(layer(x)) - expected).max() <= 1e-2 * np.abs(expected).max()


@pytest.mark.parametrize("name", ANY_MAP)
def test_map_of_unknown_size(name):
    inputs = keras.Input((None, None, 6))
    layer = small(name)
    model = keras.Model(inputs, layer(inputs))
    assert model.output_shape == (None, None, None, 8)
    for size in [(5, 4), (2, 7)]:
        x = normal(2, *size, 6)
        expected = to_numpy(layer(x))
        assert expected.shape == layer.compute_output_shape(x.shape)
        np.testing.assert_allclose(model.predict(x, verbose=0), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of TensorFlow's graphs")
@pytest.mark.parametrize("name", ANY_MAP)
def test_graph_for_maps_of_any_size(name):
    """As an exported model has it."""
    import tensorflow as tf

    layer = small(name)
    layer.build((None, None, None, 6))
    call = tf.function(layer).get_concrete_function(tf.TensorSpec((None, None, None, 6)))
    for size in [(5, 4), (2, 7)]:
        x = normal(2, *size, 6)
        received = call(tf.constant(x)).numpy()
        np.testing.assert_allclose(received, to_numpy(layer(x)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in EVERYWHERE else pytest.mark.very_slow)
        for name in CHOSEN
    ],
)
def test_compiled_training_step(name):
    model = keras.Sequential([keras.Input(EXAMPLE), small(name), keras.layers.Flatten()])
    model.compile("sgd", "mse", jit_compile=keras.backend.backend() != "torch")
    before = [to_numpy(variable).copy() for variable in model.trainable_variables]
    targets = normal(4, model.output_shape[-1])
    history = model.fit(normal(4, *EXAMPLE), targets, batch_size=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    for variable, value in zip(model.trainable_variables, before, strict=True):
        # Batch normalizations and the softmax hide some gammas and betas before them.
        if len(value.shape) == 2:
            assert not np.array_equal(to_numpy(variable), value), variable.path


@pytest.mark.parametrize("name", VARIANTS)
def test_empty_batch(name):
    """Nothing in, nothing out, in training too, and the statistics stay."""
    layer = small(name)
    for training in (False, True):
        outputs = layer(np.zeros((0, *EXAMPLE), "float32"), training=training)
        assert tuple(outputs.shape) == layer.compute_output_shape((0, *EXAMPLE))
    assert all(np.isfinite(array).all() for array in layer.get_weights())


@pytest.mark.parametrize("name", VARIANTS)
def test_initialisation(name):
    """Fan-in: N(0, d^-1/2) for kernels; N(0, depth^-1/2) for embeddings; no two alike."""
    layer_class, arguments, *_ = VARIANTS[name]
    layer = layer_class(**{**arguments, "filters": 512, "num_heads": 2, "strides": 1})
    if layer_class is AugmentedConvolution:
        layer = AugmentedConvolution(512, num_heads=2, key_dim=256)
    if layer_class is LocalAttention:
        layer = LocalAttention(512, num_heads=2, scope=15)
    layer.build((None, 14, 14, 256))
    for variable in layer.trainable_variables:
        if len(variable.shape) != 2:
            continue
        values = to_numpy(variable)
        expected = 256**-0.5
        if "kernel" in variable.path:
            expected = values.shape[0] ** -0.5
        assert values.std() == pytest.approx(expected, rel=0.07), variable.path
        assert abs(values.mean()) < 0.07 * expected
        # Not truncated: a normal draw of thousands has values beyond 2.5 deviations.
        assert np.abs(values).max() > 2.5 * expected
    for one, other in itertools.combinations(layer.trainable_variables, 2):
        if one.shape == other.shape and len(one.shape) == 2:
            assert not np.array_equal(to_numpy(one), to_numpy(other))


@pytest.mark.one_backend
def test_weights_that_arguments_add():
    def count(**arguments):
        layer = LinearAttention(64, **arguments)
        layer.build((None, 7, 7, 64))
        return layer.count_params()

    assert count() == 3 * 64**2
    assert count(output_projection=True) == 4 * 64**2
    assert count(multi_query=True) == 64**2 + 2 * 64 * 8
    assert count(key_dim=4, num_heads=4) == 2 * 64 * 16 + 64**2


def test_double_attention_as_a_keras_layer():
    case = testing.TestCase()
    case.run_layer_test(
        DoubleAttention,
        init_kwargs={"ratio": 0.4, "kernel_regularizer": "l2"},
        input_shape=(2, *EXAMPLE),
        expected_output_shape=(2, *EXAMPLE),
        expected_num_trainable_weights=10,
        expected_num_non_trainable_weights=2,
        expected_num_losses=4,
        supports_masking=False,
    )


def test_double_attention_starts_as_the_identity():
    x = normal(2, *EXAMPLE)
    layer = DoubleAttention()
    for training in (False, True):
        np.testing.assert_array_equal(to_numpy(layer(x, training=training)), x)


def test_double_attention_of_maps_of_every_size():
    layer = DoubleAttention(gamma_initializer="ones")
    inputs = keras.Input((None, None, 6))
    model = keras.Model(inputs, layer(inputs))
    for size in [(5, 4), (2, 7)]:
        x = normal(2, *size, 6)
        np.testing.assert_allclose(model.predict(x, verbose=0), to_numpy(layer(x)), atol=1e-5)
    assert layer(np.zeros((0, 5, 4, 6), "float32"), training=True).shape[0] == 0


@pytest.mark.one_backend
@pytest.mark.parametrize("filters", [64, 128, 256, 512])
def test_value_filters_of_an_augmented_convolution(filters):
    """Nearest to a tenth: as many as `resnet50_augmented` is counted with."""
    chosen = AugmentedConvolution(filters).value_filters
    assert chosen == {64: 8, 128: 16, 256: 24, 512: 48}[filters]


@pytest.mark.one_backend
def test_augmented_convolution_under_xla():
    """TensorFlow resizes maps of odd sizes in another way there."""
    import tensorflow as tf

    x = normal(2, 9, 7, 3)
    layer = AugmentedConvolution(8, num_heads=2, attention_pool=2)
    outputs = tf.function(layer, jit_compile=True)(x)
    np.testing.assert_allclose(to_numpy(outputs), to_numpy(layer(x)), atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"filters": 8, "value_filters": 8}, "value_filters to be less than filters"),
        ({"filters": 8, "value_filters": 3}, "divisible by num_heads"),
        ({"filters": 8, "attention_pool": 0}, "attention_pool=0"),
    ],
)
def test_bad_arguments_of_an_augmented_convolution(arguments, part):
    with pytest.raises(ValueError, match=part):
        AugmentedConvolution(num_heads=2, **arguments)
