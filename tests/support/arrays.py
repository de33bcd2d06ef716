"""Arrays that tests draw, take from tensors and compare."""

import keras
import numpy as np


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def to_numpy(tensor) -> np.ndarray:
    return keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))


def stacked(stream, count: int) -> list[np.ndarray]:
    """Each part of the first elements of a `tf.data.Dataset`, in one array."""
    return [np.stack(part) for part in zip(*stream.take(count).as_numpy_iterator(), strict=True)]


def assert_near(received, expected, tolerance=1e-5):
    """Equal up to a tolerance relative to the largest value."""
    assert received.shape == expected.shape
    assert np.abs(received - expected).max() <= tolerance * np.abs(expected).max()


def assert_normal(variable, deviation, tolerance=0.06):
    """A draw of thousands from a normal distribution around 0, which is not truncated."""
    weights = to_numpy(variable)
    assert abs(weights.std() - deviation) < tolerance * deviation
    assert abs(weights.mean()) < tolerance * deviation
    assert np.abs(weights).max() > 2.5 * deviation
