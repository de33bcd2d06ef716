"""The attention layers as Keras layers: serialization, dtypes, unknown sizes, initial weights."""

import itertools

import keras
import numpy as np
import pytest
from keras.src import testing
from support import backends
from support.arrays import normal, to_numpy

from lambda_keras.layers import attention
from lambda_keras.layers.attention import (
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
REGULARIZED = {"kernel_regularizer": "l2", "embeddings_regularizer": "l2"}
# Layer, its arguments, numbers of trainable and other weights, and of losses.
VARIANTS = {
    "global": (GlobalAttention, {"strides": 2, **REGULARIZED}, 5, 0, 5),
    "local": (LocalAttention, {"scope": 3, "mask_padding": False, "strides": 2}, 5, 0, 0),
    "halo": (HaloAttention, {**HALO, "strides": 2, "strided_queries": True}, 5, 0, 0),
    "axial": (
        AxialAttention,
        {"strides": 2, "output_projection": True, **REGULARIZED},
        *(45, 32, 13),
    ),
    "augmented": (
        AugmentedConvolution,
        {"value_filters": 4, "strides": 2, "kernel_regularizer": "l2"},
        *(7, 0, 5),
    ),
    "softmax": (LinearAttention, {"multi_query": True, "kernel_regularizer": "l2"}, 3, 0, 3),
    "favor": (LinearAttention, {"feature_map": "favor", "num_features": 6}, 3, 1, 0),
    "double": (DoubleAttention, {"ratio": 0.4, "kernel_regularizer": "l2"}, 10, 2, 4),
}
ANY_MAP = ("local", "halo", "softmax", "favor", "double")
# Their parts are those of the others: halo has local's windows, global axial's tables.
SOME = backends.elsewhere(VARIANTS, ("global", "halo", "softmax", "favor"))
EXAMPLE = (5, 4, 6)


def test_every_attention_layer_has_a_row():
    assert {layer.__name__ for layer, *_ in VARIANTS.values()} == {*attention.__all__}


def small(name, **arguments):
    layer, own, *_ = VARIANTS[name]
    return layer(**{**({} if name == "double" else SMALL), **own, **arguments})


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_as_a_keras_layer(name):
    """Keras' own checks: config, build, symbolic and eager shapes, fit, mixed precision."""
    layer, arguments, *_ = VARIANTS[name]
    trainable, others, losses = VARIANTS[name][2:]
    testing.TestCase().run_layer_test(
        layer,
        init_kwargs={**({} if name == "double" else SMALL), **arguments},
        input_shape=(2, *EXAMPLE),
        expected_output_shape=small(name).compute_output_shape((2, *EXAMPLE)),
        expected_num_trainable_weights=trainable,
        expected_num_non_trainable_weights=others,
        expected_num_seed_generators=0,
        expected_num_losses=losses,
        supports_masking=False,
    )


@pytest.mark.parametrize("name", VARIANTS)
def test_weights_and_losses(name):
    _, arguments, trainable, others, losses = VARIANTS[name]
    layer, kinds = (
        small(name),
        ("kernel", "embeddings" if REGULARIZED.keys() <= arguments.keys() else "-"),
    )
    outputs = layer(normal(2, *EXAMPLE))
    assert tuple(outputs.shape) == layer.compute_output_shape((2, *EXAMPLE))
    assert (len(layer.trainable_weights), len(layer.non_trainable_weights)) == (trainable, others)
    kernels = [v for v in layer.trainable_weights if v.name.endswith(kinds)]
    assert len(layer.losses) == losses
    if losses:
        expected = 0.01 * sum((to_numpy(kernel) ** 2).sum() for kernel in kernels)
        assert float(to_numpy(sum(layer.losses))) == pytest.approx(expected, rel=1e-5)
    assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()


def test_config_has_every_argument():
    """Arguments of the base classes, too, and values that are not the defaults."""
    arguments = {
        "filters": 12,
        "num_heads": 3,
        "key_dim": 5,
        "strides": 2,
        "multi_query": True,
        "output_projection": True,
        "block_size": 4,
        "halo_size": 1,
        "mask_padding": False,
        "scale_positions": False,
        "strided_queries": True,
        "name": "halo",
    }
    kinds = {"kernel_initializer": "zeros", "embeddings_initializer": "ones", **REGULARIZED}
    copy = HaloAttention.from_config(HaloAttention(**arguments, **kinds).get_config())
    assert arguments.items() <= copy.get_config().items()
    assert isinstance(copy.kernel_initializer, keras.initializers.Zeros)
    assert isinstance(copy.embeddings_initializer, keras.initializers.Ones)
    assert isinstance(copy.embeddings_regularizer, keras.regularizers.L2)


HALVES = ("mixed_bfloat16", "mixed_float16", "bfloat16")


@pytest.mark.parametrize(
    ("name", "arguments", "dtype"),
    [(name, {}, HALVES[n % 3]) for n, name in enumerate(VARIANTS) if name != "double"]
    + [("favor", {"feature_map": kind}, "mixed_float16") for kind in ("elu", "relu")],
)
def test_half_precision_is_near_float32(name, arguments, dtype):
    x = normal(2, *EXAMPLE)
    exact = small(name, **arguments)
    expected = to_numpy(exact(x))
    layer = small(name, dtype=dtype, **arguments)
    layer.build(x.shape)
    layer.set_weights(exact.get_weights())
    output = layer(x)
    assert keras.backend.standardize_dtype(output.dtype) == layer.compute_dtype
    tolerance = 5e-3 if layer.compute_dtype == "float16" else 5e-2
    assert np.abs(to_numpy(output) - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("name", ["global", "local", "axial", "softmax", "double"])
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
    arguments = {"gamma_initializer": "ones"} if name == "double" else {}
    layer = small(name, **arguments)
    outputs = layer(keras.Input((None, None, 6)))
    assert outputs.shape == layer.compute_output_shape((None, None, None, 6))
    x = normal(2, *EXAMPLE)
    expected = to_numpy(layer(x))
    assert expected.shape == layer.compute_output_shape(x.shape)
    received = backends.of_unknown_sizes(layer, x)
    np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", VARIANTS)
def test_empty_batch(name):
    """Nothing in, nothing out, in training too, and the statistics stay."""
    layer = small(name)
    for training in (False, True):
        outputs = layer(np.zeros((0, *EXAMPLE), "float32"), training=training)
        assert tuple(outputs.shape) == layer.compute_output_shape((0, *EXAMPLE))
    assert all(np.isfinite(array).all() for array in layer.get_weights())


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "double"])
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


def test_double_attention_starts_as_the_identity():
    x = normal(2, *EXAMPLE)
    layer = DoubleAttention()
    for training in (False, True):
        np.testing.assert_array_equal(to_numpy(layer(x, training=training)), x)


HEADS_OF_8 = {"num_heads": 8, "key_dim": 8, "multi_query": False, "strides": 1}
# Layer, its arguments, and what it is with its defaults.
DEFAULTS = [
    (GlobalAttention(64), {**HEADS_OF_8, "scale_positions": True}),
    (LocalAttention(64), {**HEADS_OF_8, "scope": 7, "mask_padding": True}),
    (HaloAttention(64), {**HEADS_OF_8, "block_size": 8, "halo_size": 3, "mask_padding": True}),
    (AxialAttention(72), {"num_heads": 8, "key_dim": 4, "momentum": 0.99, "epsilon": 1e-5}),
    (LinearAttention(64), {**HEADS_OF_8, "feature_map": "softmax", "num_features": 256}),
    (LinearAttention(64, feature_map="elu"), {"epsilon": 1e-6, "seed": 0}),
    (LinearAttention(64, feature_map="favor"), {"epsilon": 1e-6}),
    (LinearAttention(64, feature_map="relu"), {"epsilon": 1e-3}),
    (DoubleAttention(), {"ratio": 0.5, "momentum": 0.99, "epsilon": 1e-5}),
    # Values nearest to a tenth: as many as `resnet50_augmented` is counted with.
    (AugmentedConvolution(64), {"value_filters": 8, "key_dim": 20, "attention_pool": 1}),
    (AugmentedConvolution(128), {"value_filters": 16, "key_dim": 20}),
    (AugmentedConvolution(256), {"value_filters": 24, "key_dim": 20}),
    (AugmentedConvolution(512), {"value_filters": 48, "key_dim": 20}),
    (AugmentedConvolution(1024), {"value_filters": 104, "key_dim": 25}),
    (AugmentedConvolution(32), {"value_filters": 8}),
]


@pytest.mark.one_backend
@pytest.mark.parametrize(("layer", "expected"), DEFAULTS)
def test_defaults(layer, expected):
    config = layer.get_config()
    assert {name: config[name] for name in expected} == expected


@pytest.mark.one_backend
@pytest.mark.parametrize(("ratio", "units"), [(0.5, 3), (0.4, 2), (0.1, 1), (1, 6)])
def test_units_of_double_attention(ratio, units):
    layer = DoubleAttention(ratio)
    layer.build((None, 4, 4, 6))
    shapes = [layer.features.kernel.shape, layer.project.kernel.shape]
    assert shapes == [(6, units), (units, 6)]


@pytest.mark.one_backend
@pytest.mark.slow
def test_augmented_convolution_under_xla():
    """TensorFlow resizes maps of odd sizes in another way there."""
    import tensorflow as tf

    x = normal(2, 9, 7, 3)
    layer = AugmentedConvolution(8, num_heads=2, attention_pool=2)
    outputs = tf.function(layer, jit_compile=True)(x)
    np.testing.assert_allclose(to_numpy(outputs), to_numpy(layer(x)), atol=1e-5)
