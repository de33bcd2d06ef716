"""LAMB and what recipes add to Keras' optimizers, against NumPy."""

import keras
import numpy as np
import pytest

from zoo.train.lamb import Lamb
from zoo.train.optimizer import OPTIMIZERS

SHAPES = ((4, 3), (3,), (2, 2))


def gradients(step: int, scale: float = 1.0) -> list[np.ndarray]:
    rng = np.random.default_rng(step)
    return [scale * rng.normal(size=shape).astype("float32") for shape in SHAPES]


def moved(optimizer, factors, decays, steps=4, scale=1.0) -> list[np.ndarray]:
    """Three variables after some steps; the first two have a factor, some have a decay."""
    variables = [keras.Variable(value) for value in gradients(100)]
    optimizer.scale_rates(zip(variables, factors, strict=False))
    for variable, decay in zip(variables, decays, strict=True):
        if decay is not None:
            optimizer.decay([variable], decay)
    for step in range(steps):
        optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients(step, scale)], variables)
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def adam_direction(mean, square, gradient, step, epsilon):
    mean[...] = 0.9 * mean + 0.1 * gradient
    square[...] = 0.999 * square + 0.001 * gradient**2
    return mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + epsilon)


@pytest.mark.parametrize(("decay", "scale"), [(None, 1), (0.0, 1), (0.3, 1), (0.3, 1e-4)])
def test_lamb_is_that_of_the_paper(decay, scale):
    """The last variable only has a decay: the others have a ratio of 1, as in Adam.

    Where gradients are small, epsilon counts as in the denominator, not below the root.
    """
    expected = [value.astype("float64") for value in gradients(100)]
    state = [(np.zeros(shape), np.zeros(shape)) for shape in SHAPES]
    for step in range(1, 5):
        for number, gradient in enumerate(gradients(step - 1, scale)):
            update = adam_direction(*state[number], gradient, step, 1e-6)
            rate = 0.1 * (0.5, 0.25, 1)[number]
            weight = expected[number]
            if number == 2 and decay is not None:
                update = update + decay * weight
                rate *= np.linalg.norm(weight) / np.linalg.norm(update)
            expected[number] = weight - rate * update
    received = moved(
        Lamb(learning_rate=0.1, epsilon=1e-6), (0.5, 0.25), (None, None, decay), scale=scale
    )
    for one, other in zip(received, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


def test_lamb_of_nothing_stays_where_it_is():
    weight = keras.Variable(np.zeros((2, 2), "float32"))
    optimizer = Lamb(learning_rate=0.1)
    optimizer.decay([weight], 0.1)
    optimizer.apply([keras.ops.zeros((2, 2))], [weight])
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(weight), 0)


def test_lamb_of_a_zero_kernel_has_a_ratio_of_1():
    """Otherwise it would stay zero whatever its gradient."""
    weight = keras.Variable(np.zeros((2, 2), "float32"))
    optimizer = Lamb(learning_rate=0.1, epsilon=1e-6)
    optimizer.decay([weight], 0.1)
    optimizer.apply([keras.ops.full((2, 2), -3.0)], [weight])
    np.testing.assert_allclose(keras.ops.convert_to_numpy(weight), 0.1, rtol=1e-5)


def test_adamw_decays_before_each_step_by_the_rate_of_the_variable():
    expected = [value.astype("float64") for value in gradients(100)]
    state = [(np.zeros(shape), np.zeros(shape)) for shape in SHAPES]
    decays = (0.2, None, None)
    for step in range(1, 5):
        for number, gradient in enumerate(gradients(step - 1)):
            rate = 0.1 * (0.5, 0.25, 1)[number]
            update = adam_direction(*state[number], gradient, step, 1e-7)
            expected[number] = expected[number] * (1 - rate * (decays[number] or 0)) - rate * update
    adam, *_ = OPTIMIZERS["adamw"]
    received = moved(adam(learning_rate=0.1), (0.5, 0.25), decays)
    for one, other in zip(received, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


def test_clipping_is_by_the_norm_of_all_gradients():
    sgd, *_ = OPTIMIZERS["sgd"]
    received = moved(sgd(learning_rate=0.1, global_clipnorm=0.5), (), (None,) * 3, steps=1)
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients(0)))
    assert norm > 0.5
    for one, start, gradient in zip(received, gradients(100), gradients(0), strict=True):
        np.testing.assert_allclose(one, start - 0.1 * gradient * 0.5 / norm, rtol=1e-5, atol=1e-6)
