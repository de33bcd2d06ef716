"""Arguments, defaults and initial weights of attention layers.

`tests/layers/test_every_layer.py` has what they do as all layers do.
"""

import itertools

import numpy as np
import pytest
from support.arrays import assert_near, assert_normal, normal, to_numpy

from lambda_keras.layers.attention import (
    AugmentedConvolution,
    AxialAttention,
    DoubleAttention,
    GlobalAttention,
    HaloAttention,
    LinearAttention,
    LocalAttention,
)


@pytest.mark.parametrize("feature_map", ["elu", "favor", "relu"])
def test_many_positions_stay_in_the_range_of_float16(feature_map):
    """Sums of their features do not: 4096 positions of some 30 are above 65504."""
    x, outputs = 2 + 0.1 * normal(1, 64, 64, 8), []
    for dtype in ("float16", "float32"):
        layer = LinearAttention(8, num_heads=1, feature_map=feature_map, dtype=dtype)
        layer.build(x.shape)
        kernels = [8 * np.eye(8), 8 * np.eye(8), np.eye(8)]
        layer.set_weights([*kernels, *layer.get_weights()[3:]])
        outputs.append(to_numpy(layer(x)))
    assert_near(*outputs, 1e-2)


WIDE = {"filters": 512, "num_heads": 2}
NEW = [
    GlobalAttention(**WIDE),
    LocalAttention(**WIDE, scope=15, mask_padding=False),
    HaloAttention(**WIDE, block_size=2, halo_size=1),
    AxialAttention(**WIDE, output_projection=True),
    AugmentedConvolution(**WIDE, key_dim=256),
    LinearAttention(**WIDE, multi_query=True),
    LinearAttention(**WIDE, feature_map="favor", num_features=6),
]


@pytest.mark.parametrize("layer", NEW)
def test_initialisation(layer):
    """Fan-in: N(0, d^-1/2) for kernels; N(0, depth^-1/2) for embeddings; no two alike."""
    layer.build((None, 14, 14, 256))
    matrices = [one for one in layer.trainable_variables if len(one.shape) == 2]
    for variable in matrices:
        fan_in = variable.shape[0] if "kernel" in variable.path else 256
        assert_normal(variable, fan_in**-0.5, 0.07)
    for one, other in itertools.combinations(matrices, 2):
        assert one.shape != other.shape or not np.array_equal(to_numpy(one), to_numpy(other))


def test_double_attention_starts_as_the_identity():
    x = normal(2, 5, 4, 6)
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
