"""Compiled steps: what they return is what the layer returns, training included."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
from support.arrays import to_numpy
from support.backends import output_and_gradients

from zoo.benchmark.backends import AllocatorBackend, Step, current_backend, random_tensor
from zoo.benchmark.layer import Implementation
from zoo.measurements import FORWARD, FORWARD_BACKWARD

CONV = Implementation("conv", size=4, depth=8, batch=2, scope=3)


@pytest.mark.parametrize("xla", [False, True])
def test_forward(xla):
    outputs = CONV.step(FORWARD, current_backend(xla)).start()
    expected = CONV.build()(random_tensor(CONV.input_shape, "float32", 1), training=False)
    np.testing.assert_allclose(to_numpy(outputs), to_numpy(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("xla", [False, True])
def test_forward_backward(xla):
    step = CONV.step(FORWARD_BACKWARD, current_backend(xla))
    outputs, *_, gradients = step.start()
    layer = CONV.build()
    drawn = [to_numpy(random_tensor(CONV.input_shape, "float32", seed)) for seed in (1, 2)]
    expected = output_and_gradients(layer, drawn[:1], drawn[1], training=True)
    wanted = keras.tree.flatten(expected)
    assert len(wanted) == 2 + len(layer.trainable_weights)
    for one, other in zip([outputs, *gradients], wanted, strict=True):
        np.testing.assert_allclose(to_numpy(one), other, rtol=1e-3, atol=1e-4)


def test_half_precision():
    case = Implementation("einsum", size=4, depth=8, batch=2, scope=3, dtype="mixed_bfloat16")
    outputs, *_, gradients = case.step(FORWARD_BACKWARD, current_backend()).start()
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    assert keras.backend.standardize_dtype(gradients[0].dtype) == "bfloat16"


def test_step_runs_so_many_times():
    started = []
    Step(lambda: started.append(None), current_backend()).run(3)
    assert len(started) == 3


def test_memory_of_a_step_is_what_it_adds():
    backend = SimpleNamespace(wait=lambda _: None, memory=lambda reset=False: 100 if reset else 350)
    step = SimpleNamespace(start=lambda: None)
    assert AllocatorBackend.temporary_bytes(backend, step) == 250


@pytest.mark.needs("oneDNN")
def test_temporary_bytes_of_a_sum_of_two_products():
    inputs = random_tensor((1024, 1024), "float32", 1)
    step = current_backend().compile(lambda x: (x @ x) + keras.ops.sin(x @ (x + 1)), inputs)
    assert step.backend.memory_method
    tensors = step.backend.temporary_bytes(step) / 4 / 1024**2
    assert 1 <= tensors <= 6
