"""The Fourier form where sizes are those of real feature maps, and in half precision."""

import numpy as np
import pytest
from support.arrays import assert_near, normal, to_numpy
from support.reference import like

from lambda_keras.layers import LambdaLayer

ARGUMENTS = {"num_heads": 2, "use_content": False, "implementation": "conv"}


@pytest.mark.parametrize("size", [(31, 18), pytest.param((56, 56), marks=pytest.mark.slow)])
def test_fourier_equals_the_convolution_on_feature_maps(size):
    """At real sizes, even and odd periods: rounding stays far below that of half precision."""
    x = normal(1, *size, 8)
    layer = LambdaLayer(8, **ARGUMENTS, key_dim=4, scope=23)
    expected = to_numpy(layer(x))
    assert_near(to_numpy(like(layer, implementation="fourier")(x)), expected)


def test_fourier_does_not_overflow_in_float16():
    """A constant map has a spectrum of one large number."""
    x = np.full((1, 28, 28, 8), 50.0, "float32")
    exact = LambdaLayer(8, **ARGUMENTS, scope=7)
    exact.build(x.shape)
    exact.query_batch_norm.gamma.assign(0.01 * np.ones(exact.query_batch_norm.gamma.shape))
    layer = like(exact, implementation="fourier", dtype="mixed_float16")
    assert_near(to_numpy(layer(x)), to_numpy(exact(x)), 1e-2)
