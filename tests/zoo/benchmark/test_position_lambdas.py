"""Position lambdas alone are what the implementations differ in."""

import keras
import numpy as np
import pytest

from zoo.benchmark.layer import HEADS, KEY_DIM, POSITION, Implementation


@pytest.mark.parametrize("implementation", ["auto", "conv", "einsum", "fourier", "query_first"])
def test_outputs_are_those_of_the_equation(implementation):
    case = Implementation(implementation, 5, 8, 2, 3, POSITION)
    layer = case.build()
    inputs = np.random.default_rng(0).standard_normal(case.input_shape).astype("float32")
    weights = keras.ops.convert_to_numpy(layer.trainable_variables[0])
    queries = inputs[..., : HEADS * KEY_DIM].reshape(2, 5, 5, HEADS, KEY_DIM)
    values = np.pad(inputs[..., HEADS * KEY_DIM :], [(0, 0), (1, 1), (1, 1), (0, 0)])
    expected = np.zeros((2, 5, 5, HEADS, 2))
    for row, column in np.ndindex(3, 3):
        shifted = values[:, row : row + 5, column : column + 5]
        expected += np.einsum(
            "byxhk,k,byxv->byxhv", queries, weights[row, column, 0], shifted, dtype="float64"
        )
    outputs = keras.ops.convert_to_numpy(layer(keras.ops.convert_to_tensor(inputs)))
    np.testing.assert_allclose(outputs, expected.reshape(2, 5, 5, 8), atol=1e-5)
