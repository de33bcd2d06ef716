"""Updates of optimizers: decay, rates of variables, LAMB's ratio, clipping."""

import keras
import numpy as np
import pytest

from zoo.train.optimizer import OPTIMIZERS
from zoo.train.updates import Lamb

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


LAMB = [(None, 1), (0.0, 1), (0.3, 1), (0.3, 1e-4)]  # decays of the last variable, scales


def adam_direction(mean, square, gradient, step, epsilon):
    mean[...] = 0.9 * mean + 0.1 * gradient
    square[...] = 0.999 * square + 0.001 * gradient**2
    return mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + epsilon)


@pytest.mark.parametrize(
    ("name", "decays", "scale"),
    [
        *(("lamb", (None, None, decay), scale) for decay, scale in LAMB),
        ("adamw", (0.2, None, None), 1),
    ],
)
def test_decay_and_ratio_are_those_of_the_papers(name, decays, scale):
    """Of LAMB: variables without a decay have a ratio of 1, as in Adam.

    Where gradients are small, epsilon counts as in the denominator, not below the root.
    AdamW decays before each step, by the rate of the variable.
    """
    expected = [value.astype("float64") for value in gradients(100)]
    state = [(np.zeros(shape), np.zeros(shape)) for shape in SHAPES]
    for step in range(1, 5):
        for number, gradient in enumerate(gradients(step - 1, scale)):
            epsilon = {"lamb": 1e-6, "adamw": 1e-7}[name]
            update = adam_direction(*state[number], gradient, step, epsilon)
            rate = 0.1 * (0.5, 0.25, 1)[number]
            weight, decay = expected[number], decays[number]
            expected[number] = weight * (1 - rate * (decay or 0)) - rate * update
            if name == "lamb" and decay is not None:
                update = update + decay * weight
                ratio = np.linalg.norm(weight) / np.linalg.norm(update)
                expected[number] = weight - rate * ratio * update
    kind, _, defaults = OPTIMIZERS[name]
    received = moved(kind(learning_rate=0.1, **defaults), (0.5, 0.25), decays, scale=scale)
    for one, other in zip(received, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("value", "gradient", "decay", "expected"),
    [
        (0.0, 0.0, 0.1, 0.0),
        (2.0, 0.0, 0.0, 2.0),
        (0.0, -3.0, 0.1, 0.1),  # else a zero kernel would stay zero whatever its gradient
    ],
)
def test_lamb_of_zero_norms_has_a_ratio_of_1(value, gradient, decay, expected):
    weight = keras.Variable(np.full((2, 2), value, "float32"))
    optimizer = Lamb(learning_rate=0.1, epsilon=1e-6)
    optimizer.decay([weight], decay)
    optimizer.apply([keras.ops.full((2, 2), gradient)], [weight])
    np.testing.assert_allclose(keras.ops.convert_to_numpy(weight), expected, rtol=1e-5)


def test_clipping_is_by_the_norm_of_all_gradients():
    sgd, *_ = OPTIMIZERS["sgd"]
    received = moved(sgd(learning_rate=0.1, global_clipnorm=0.5), (), (None,) * 3, steps=1)
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients(0)))
    assert norm > 0.5
    for one, start, gradient in zip(received, gradients(100), gradients(0), strict=True):
        np.testing.assert_allclose(one, start - 0.1 * gradient * 0.5 / norm, rtol=1e-5, atol=1e-6)
