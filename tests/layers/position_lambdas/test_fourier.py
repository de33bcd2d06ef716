"""The Fourier form where sizes are those of real feature maps, and in half precision."""

import numpy as np
import pytest
from support.arrays import assert_near, normal, to_numpy

from lambda_keras.layers import LambdaLayer


@pytest.mark.parametrize("size", [(31, 18), pytest.param((56, 56), marks=pytest.mark.slow)])
def test_fourier_equals_the_convolution_on_feature_maps(size):
    """At real sizes, even and odd periods: rounding stays far below that of half precision."""
    x = normal(1, *size, 8)
    layers = [
        LambdaLayer(8, num_heads=2, key_dim=4, scope=23, use_content=False, implementation=name)
        for name in ("conv", "fourier")
    ]
    expected = to_numpy(layers[0](x))
    layers[1].build(x.shape)
    layers[1].set_weights(layers[0].get_weights())
    assert_near(to_numpy(layers[1](x)), expected)


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
    assert_near(to_numpy(layer(x)), to_numpy(exact(x)), 1e-2)
