"""Properties of the lambda layer: shifts, the order of the context."""

import keras
import numpy as np
import pytest

from lambda_keras.layers import LambdaLayer, position_lambdas


def layer(**arguments):
    return LambdaLayer(**{"filters": 6, "num_heads": 2, "key_dim": 3, "scope": 3, **arguments})


@pytest.mark.parametrize("implementation", position_lambdas.IMPLEMENTATIONS)
def test_position_lambdas_are_translation_equivariant(implementation):
    """Shifting what stands on an empty background shifts the outputs (3.3)."""
    height, width, down, right = 3, 4, 4, 1
    patch = np.random.default_rng(0).normal(size=(1, height, width, 4)).astype("float32")

    def outputs_of(y, x):
        image = np.zeros((1, 14, 14, 4), "float32")
        image[:, y : y + height, x : x + width] = patch
        return keras.ops.convert_to_numpy(one(image))

    # Without batch normalization of the values an empty background has no values.
    one = layer(use_content=False, value_normalization=None, implementation=implementation)
    base, shifted = outputs_of(2, 2), outputs_of(2 + down, 2 + right)
    window = base[:, 1 : 3 + height, 1 : 3 + width]
    moved = shifted[:, 1 + down : 3 + height + down, 1 + right : 3 + width + right]
    assert np.abs(window).max() > 0
    np.testing.assert_allclose(moved, window, atol=1e-5 * np.abs(base).max())


def test_content_lambda_ignores_the_order_of_the_context():
    """Permuting the context elements changes nothing (3.1)."""
    rng = np.random.default_rng(0)
    x, context = (rng.normal(size=(2, size, 4)).astype("float32") for size in (5, 9))
    content_layer = layer(position_embedding=None)
    expected = keras.ops.convert_to_numpy(content_layer(x, context=context))
    permuted = content_layer(x, context=context[:, rng.permutation(9)])
    np.testing.assert_allclose(keras.ops.convert_to_numpy(permuted), expected, atol=1e-5)
