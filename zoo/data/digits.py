"""Scikit-learn's handwritten digits."""

import numpy as np

from zoo.data.split import stratified_split
from zoo.errors import needs_extra

DIGITS_TEST_COUNT = 360


def digits_arrays() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Returns scikit-learn's handwritten digits, split once and for all.

    Returns:
        Training and test images with labels: uint8 of shape `(count, 8, 8, 3)`; integers.
        The 360 test images have the ten digits in the proportions of the whole.
    """
    with needs_extra("train"):
        from sklearn.datasets import load_digits
    gray, labels = load_digits(return_X_y=True)
    gray = np.round(np.asarray(gray).reshape(-1, 8, 8, 1) * (255 / 16)).astype("uint8")
    images, labels = np.repeat(gray, 3, axis=-1), np.asarray(labels)
    train, test = stratified_split(labels.tolist(), DIGITS_TEST_COUNT, seed=0)
    return (images[train], labels[train]), (images[test], labels[test])
