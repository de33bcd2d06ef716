"""Squeeze-and-excitation against NumPy, and as a Keras layer."""

import numpy as np
import pytest
from keras import ops
from support import backends, networks

from lambda_keras.layers import SqueezeExcitation


def reference(layer, inputs):
    """Hu et al. (2018), equations 2-4, in float64. Returns the output."""
    w1, b1, w2, b2 = (array.astype("float64") for array in networks.values(layer.weights))
    means = inputs.astype("float64").mean(axis=tuple(range(1, inputs.ndim - 1)), keepdims=True)
    hidden = np.maximum(means @ w1 + b1, 0)
    return inputs / (1 + np.exp(-(hidden @ w2 + b2)))


def built(channels, **arguments):
    layer = SqueezeExcitation(**arguments)
    layer.build((None, 4, 4, channels))
    layer.set_weights([networks.images(*w.shape, seed=i) for i, w in enumerate(layer.weights)])
    return layer


@pytest.mark.parametrize("shape", [(3, 5, 4, 8), (2, 1, 1, 8), (2, 7, 8), (2, 2, 3, 4, 8)])
@pytest.mark.parametrize("ratio", [0.25, 0.5, 1])
def test_equals_the_reference(shape, ratio):
    inputs = networks.images(*shape)
    layer = built(8, ratio=ratio)
    outputs = ops.convert_to_numpy(layer(inputs))
    np.testing.assert_allclose(outputs, reference(layer, inputs), rtol=1e-5, atol=1e-6)


def test_gradient_equals_finite_differences():
    inputs, cotangent = networks.images(2, 3, 3, 8), networks.images(2, 3, 3, 8, seed=9)
    direction = networks.images(2, 3, 3, 8, seed=10).astype("float64")
    layer = built(8)
    _, (gradient,), _ = backends.output_and_gradients(layer, [inputs], cotangent)
    step = 1e-6
    up, down = (reference(layer, inputs + sign * step * direction) for sign in (1, -1))
    change = up - down
    expected = (change * cotangent).sum() / (2 * step)
    np.testing.assert_allclose((gradient * direction).sum(), expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("channels", "ratio", "squeezed"), [(8, 0.25, 2), (64, 0.25, 16), (3, 0.25, 1), (7, 0.5, 3)]
)
def test_squeezed_width(channels, ratio, squeezed):
    shapes = [tuple(weight.shape) for weight in built(channels, ratio=ratio).weights]
    assert shapes == [(channels, squeezed), (squeezed,), (squeezed, channels), (channels,)]
