"""Batch normalization: what Keras' own gives, values, gradients and statistics."""

import sys

import keras
import numpy as np
import pytest
from keras import ops
from support import arrays, backends
from support.arrays import assert_near, to_numpy

from lambda_keras import layers
from lambda_keras.layers import BatchNormalization

SHAPES = [(4, 6), (3, 5, 6), (2, 5, 4, 6), (2, 3, 2, 4, 6), (1, 1, 1, 6)]
VARIANTS = [
    {"center": False, "epsilon": 1e-5},
    {"scale": False, "momentum": 0.9},
    *([{"synchronized": True}] if keras.backend.backend() == "tensorflow" else []),
    {"renorm": True},
    {"trainable": False},
    {"axis": 1},
]


def normal(*shape, seed=0):
    return 2 + 3 * arrays.normal(*shape, seed=seed)


def results(layer_type, x, cotangent, training=True, **arguments):
    """Output, gradients and weights after the call."""
    layer = layer_type(**arguments)
    layer.build(x.shape)
    layer.set_weights([array + 0.3 for array in layer.get_weights()])
    output, inputs, weights = backends.output_and_gradients(
        layer, [x], cotangent, training=training
    )
    return [output, *inputs, *weights], layer


def assert_same(x, training=True, tolerance=2e-5, **arguments):
    cotangent = normal(*x.shape, seed=1)
    expected, theirs = results(keras.layers.BatchNormalization, x, cotangent, training, **arguments)
    received, ours = results(BatchNormalization, x, cotangent, training, **arguments)
    if keras.backend.backend() != "jax":  # where gradients are of a function without state
        expected, received = expected + theirs.get_weights(), received + ours.get_weights()
    for one, other in zip(expected, received, strict=True):
        np.testing.assert_allclose(other, one, atol=tolerance * max(np.abs(one).max(), 1e-3))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("shape", "arguments"),
    [*((shape, {}) for shape in SHAPES), *((SHAPES[2], arguments) for arguments in VARIANTS)],
)
def test_equals_keras(shape, arguments, training):
    assert_same(normal(*shape), training, **arguments)


@pytest.mark.one_backend
def test_plain_operations_under_op_determinism():
    """Inference has no deterministic gradient by TensorFlow's kernel on a GPU."""
    import tensorflow as tf

    def kernels():
        layer = BatchNormalization()
        graph = tf.function(lambda x: layer(x)).get_concrete_function(tf.zeros((2, 3, 3, 4))).graph
        return [one for one in graph.get_operations() if one.type == "FusedBatchNormV3"]

    assert kernels()
    config = sys.modules["tensorflow.python.framework.config"]
    config.enable_op_determinism()
    try:
        assert not kernels()
    finally:
        config.disable_op_determinism()


@pytest.mark.one_backend
@pytest.mark.parametrize(("channels", "expected"), [(16, "bfloat16"), (24, "float32")])
def test_kernel_in_bfloat16_where_channels_fill_vectors(channels, expected):
    import tensorflow as tf

    layer = BatchNormalization(dtype="mixed_bfloat16")
    images = tf.zeros((2, 3, 3, channels), "bfloat16")
    graph = tf.function(lambda x: layer(x)).get_concrete_function(images).graph
    kernels = [one for one in graph.get_operations() if one.type == "FusedBatchNormV3"]
    assert [kernel.inputs[0].dtype.name for kernel in kernels] == [expected]


def test_statistics_far_from_zero():
    """The variance is not a difference of large numbers."""
    assert_same(100 + normal(4, 5, 5, 6), tolerance=2e-4)


@pytest.mark.parametrize("first", [0.0, 1000.0])
def test_mean_a_thousand_times_the_deviation(first):
    """Exact also at the start, where the moving mean is 0, and where the first image is another."""
    x = 3000 + normal(8, 16, 16, 3)
    x[0] += first
    layer = BatchNormalization(momentum=0.0, epsilon=1e-6)
    outputs = to_numpy(layer(x, training=True))
    mean, variance = layer.get_weights()[2:]
    wide = x.astype("float64")
    np.testing.assert_allclose(mean, wide.mean((0, 1, 2)), rtol=1e-6)
    np.testing.assert_allclose(variance, wide.var((0, 1, 2)), rtol=2e-4)
    expected = (wide - wide.mean((0, 1, 2))) / wide.std((0, 1, 2))
    np.testing.assert_allclose(outputs, expected, atol=2e-3)


@pytest.mark.one_backend
def test_sums_of_millions():
    """TensorFlow's own variance is off by 1e-3, where channels are the second axis."""
    x = normal(2, 1, 1024, 1024)
    layer = BatchNormalization(axis=1, momentum=0.0)
    layer(x, training=True)
    statistics = [float(array[0]) for array in layer.get_weights()[2:]]
    wide = x.astype("float64")
    np.testing.assert_allclose(statistics, [wide.mean(), wide.var()], rtol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_mask(training):
    x, mask = normal(2, 5, 6), ops.convert_to_tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]], "bool")
    layers = keras.layers.BatchNormalization(), BatchNormalization()
    expected, received = (to_numpy(layer(x, training=training, mask=mask)) for layer in layers)
    np.testing.assert_allclose(received, expected, atol=1e-6)


FLOAT64 = pytest.param("float64", marks=pytest.mark.one_backend)


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16", "mixed_float16", FLOAT64])
def test_precisions(dtype):
    x = normal(4, 5, 5, 6)
    layers = keras.layers.BatchNormalization(dtype=dtype), BatchNormalization(dtype=dtype)
    outputs = [layer(x, training=True) for layer in layers]
    assert outputs[0].dtype == outputs[1].dtype
    expected, received = map(to_numpy, outputs)
    np.testing.assert_allclose(received, expected, atol=1e-5 if dtype == "float64" else 0.02)
    for one, other in zip(*(layer.get_weights() for layer in layers), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4)


@pytest.mark.parametrize("channels", [6, 16])
def test_gradients_in_bfloat16_are_near_float32(channels):
    """With and without casts around the kernel, whose statistics are in float32."""
    x, cotangent = (normal(8, 7, 5, channels, seed=seed).round(1) for seed in (0, 1))
    x = to_numpy(ops.cast(x, "bfloat16"))
    (expected, exact), (received, mixed) = (
        results(BatchNormalization, x, cotangent, dtype=dtype)
        for dtype in ("float32", "mixed_bfloat16")
    )
    for one, other in zip(expected, received, strict=True):
        assert_near(other, one, 0.01)
    for one, other in zip(exact.get_weights(), mixed.get_weights(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4)


@pytest.mark.parametrize("axis", [1, -1])
def test_batch_without_examples_leaves_the_statistics(axis):
    """Called at once, and on TensorFlow as a graph of any batch."""
    layer = BatchNormalization(momentum=0.5, axis=axis)
    layer.build((None, 4, 5, 4))
    for variable in (layer.moving_mean, layer.moving_variance):
        variable.assign([3.0] * 4)
    calls = [lambda x: layer(x, training=True)]
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        spec = tf.TensorSpec((None, 4, 5, 4))
        calls.append(tf.function(calls[0], autograph=False).get_concrete_function(spec))
    for call in calls:
        assert tuple(call(ops.zeros((0, 4, 5, 4))).shape) == (0, 4, 5, 4)
        if keras.backend.backend() == "tensorflow":
            np.testing.assert_array_equal(np.stack(layer.get_weights()[2:]), np.full((2, 4), 3))


@pytest.mark.one_backend
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("axis", [1, 3])
def test_compiled_for_maps_of_any_size(axis, jit_compile):
    import tensorflow as tf

    layer, theirs = (
        kind(axis=axis) for kind in (BatchNormalization, keras.layers.BatchNormalization)
    )
    shape = [6 if place == axis else None for place in range(4)]
    layer.build(shape)
    call = tf.function(lambda x: layer(x, training=True), jit_compile=jit_compile)
    assert call.get_concrete_function(tf.TensorSpec(shape)).output_shapes.as_list() == shape
    for batch, *size in ((3, 5, 4), (2, 7, 2)):
        x = np.moveaxis(normal(batch, *size, 6), -1, axis)
        expected = to_numpy(theirs(x, training=True))
        np.testing.assert_allclose(call(tf.constant(x)).numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(layer.moving_variance, theirs.moving_variance, rtol=1e-5)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("batch", "training", "joined"),
    [(None, False, False), (1, False, False), (8, False, True), (None, True, True)],
)
def test_single_images_are_not_joined_with_convolutions(batch, training, joined):
    """OneDNN would take over ten times as long for one image on processors with AVX2."""
    import tensorflow as tf

    layer = BatchNormalization()
    layer.build((None, 5, 4, 6))
    call = tf.function(lambda x: layer(x, training=training), autograph=False)
    graph = call.get_concrete_function(tf.TensorSpec((batch, 5, 4, 6))).graph
    (norm,) = (op for op in graph.get_operations() if op.type == "FusedBatchNormV3")
    assert norm.inputs[0].shape.as_list()[1:] == ([5, 4, 6] if joined else [1, 1, 6])
    assert graph.outputs[0].shape.as_list() == [batch, 5, 4, 6]


OWN = {"momentum": 0.5, "epsilon": 0.25, "dtype": "mixed_bfloat16", "trainable": False}
BEFORE_SOFTMAX = ("content", "query_position", "key_position")


@pytest.mark.parametrize(
    ("layer", "in_float32"),
    [
        (layers.LambdaLayer(8, scope=3, **OWN), ()),
        (layers.DoubleAttention(**OWN), ()),
        (layers.AxialAttention(8, num_heads=2, **OWN), BEFORE_SOFTMAX),
    ],
)
def test_normalizations_within_layers_have_their_arguments(layer, in_float32):
    layer.build((None, 4, 4, 4))
    inner = [one for one in layer._flatten_layers() if isinstance(one, BatchNormalization)]
    assert inner
    for one in inner:
        assert (one.momentum, one.epsilon) == (0.5, 0.25)
        assert one.dtype_policy.variable_dtype == "float32"
        assert not one.trainable
    found = {one.name for one in inner if one.compute_dtype == "float32"}
    assert found == {f"{one}_batch_norm" for one in in_float32}
