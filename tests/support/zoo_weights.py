"""Weights of networks, compared."""

from pathlib import Path

import h5py
import keras
import numpy as np


def same_weights(one: keras.Model, other: keras.Model) -> bool:
    """Whether all weights of two networks are equal, to the bit and in order."""
    pairs = zip(one.get_weights(), other.get_weights(), strict=True)
    return all(np.array_equal(*pair) for pair in pairs)


def h5_arrays(path: Path) -> dict[str, np.ndarray]:
    """Arrays of an HDF5 file by their names."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.update({name: item[()]} if hasattr(item, "shape") else {})
        )
    return found
