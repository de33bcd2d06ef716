"""The Fourier form where sizes are those of real feature maps, and in half precision."""

import keras
import numpy as np
import pytest

from lambda_keras.layers import LambdaLayer


@pytest.mark.parametrize(
    ("size", "scope"),
    [
        ((31, 18), 23),
        ((13, 18), None),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (((28, 28), 7), ((56, 56), 23))),
    ],
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
