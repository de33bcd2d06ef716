"""Weights of networks, compared."""

import keras
import numpy as np


def same_weights(one: keras.Model, other: keras.Model) -> bool:
    """Whether all weights of two networks are equal, to the bit and in order."""
    pairs = zip(one.get_weights(), other.get_weights(), strict=True)
    return all(np.array_equal(*pair) for pair in pairs)
