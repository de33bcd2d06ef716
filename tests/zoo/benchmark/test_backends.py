"""Compiled steps: what they return is what the layer returns, training included."""

import dataclasses

import keras
import numpy as np
import pytest
from backends import output_and_gradients

from zoo.benchmark.backends import create_layer, current_backend, random_tensor
from zoo.benchmark.cases import FORWARD, FORWARD_BACKWARD, HEADS, KEY_DIM, POSITION, Case

CASE = Case(4, 8, 2, 3)


def arrays(tensors):
    return [keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32")) for tensor in tensors]


@pytest.mark.parametrize("xla", [False, True])
def test_forward(xla):
    outputs = current_backend(xla).step(CASE, "conv", "float32", FORWARD)()
    layer = create_layer(CASE, "conv", "float32")
    expected = layer(random_tensor(CASE.input_shape, "float32", 1), training=False)
    np.testing.assert_allclose(*arrays([outputs, expected]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("xla", [False, True])
def test_forward_backward(xla):
    outputs, *_, gradients = current_backend(xla).step(CASE, "conv", "float32", FORWARD_BACKWARD)()
    layer = create_layer(CASE, "conv", "float32")
    inputs, cotangent = arrays(random_tensor(CASE.input_shape, "float32", seed) for seed in (1, 2))
    expected, by_inputs, by_weights = output_and_gradients(
        layer, [inputs], cotangent, training=True
    )
    assert len(gradients) == 1 + len(layer.trainable_weights)
    for actual, wanted in zip(
        arrays([outputs, *gradients]), [expected, *by_inputs, *by_weights], strict=True
    ):
        np.testing.assert_allclose(actual, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("implementation", ["auto", "conv", "einsum", "fourier", "query_first"])
def test_position_part_is_what_the_implementations_differ_in(implementation):
    case = Case(5, 8, 2, 3, POSITION)
    layer = create_layer(case, implementation, "float32")
    inputs = np.random.default_rng(0).standard_normal(case.input_shape).astype("float32")
    (weights,) = arrays(layer.trainable_variables)
    queries = inputs[..., : HEADS * KEY_DIM].reshape(2, 5, 5, HEADS, KEY_DIM)
    values = np.pad(inputs[..., HEADS * KEY_DIM :], [(0, 0), (1, 1), (1, 1), (0, 0)])
    expected = np.zeros((2, 5, 5, HEADS, 2))
    for row, column in np.ndindex(3, 3):
        shifted = values[:, row : row + 5, column : column + 5]
        expected += np.einsum(
            "byxhk,k,byxv->byxhv", queries, weights[row, column, 0], shifted, dtype="float64"
        )
    (outputs,) = arrays([layer(keras.ops.convert_to_tensor(inputs))])
    assert outputs.shape == case.output_shape
    np.testing.assert_allclose(outputs, expected.reshape(case.output_shape), atol=1e-5)


@pytest.mark.parametrize("part", ["layer", POSITION])
def test_half_precision(part):
    case = dataclasses.replace(CASE, part=part)
    step = current_backend().step(case, "einsum", "mixed_bfloat16", FORWARD_BACKWARD)
    outputs, *_, gradients = step()
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    assert keras.backend.standardize_dtype(gradients[0].dtype) == "bfloat16"


def test_runner_runs_so_many_times():
    backend, started = current_backend(), []
    backend.runner(lambda: started.append(None))(3)
    assert len(started) == 3
