"""Squeeze-and-excitation against NumPy."""

import numpy as np
import pytest
from support.arrays import normal
from support.reference import assert_equals_equations

from lambda_keras.layers import SqueezeExcitation


def equations(inputs, weights):
    """Hu et al. (2018), equations 2-4."""
    means = inputs.mean(axis=tuple(range(1, inputs.ndim - 1)), keepdims=True)
    hidden = means @ weights["squeeze"]["kernel"] + weights["squeeze"]["bias"]
    hidden = np.where(hidden.real > 0, hidden, 0)
    excited = hidden @ weights["excite"]["kernel"] + weights["excite"]["bias"]
    return inputs / (1 + np.exp(-excited))


@pytest.mark.parametrize("shape", [(3, 5, 4, 8), (2, 1, 1, 8), (2, 7, 8), (2, 2, 3, 4, 8)])
@pytest.mark.parametrize("ratio", [0.25, 0.5, 1])
def test_equals_the_reference(shape, ratio):
    """Outputs, and gradients by inputs and weights."""
    assert_equals_equations(SqueezeExcitation(ratio=ratio), [normal(*shape)], equations)


@pytest.mark.parametrize(
    ("channels", "ratio", "squeezed"), [(8, 0.25, 2), (64, 0.25, 16), (3, 0.25, 1), (7, 0.5, 3)]
)
def test_squeezed_width(channels, ratio, squeezed):
    layer = SqueezeExcitation(ratio=ratio)
    layer.build((None, 4, 4, channels))
    shapes = [tuple(weight.shape) for weight in layer.weights]
    assert shapes == [(channels, squeezed), (squeezed,), (squeezed, channels), (channels,)]
