"""Scikit-learn's handwritten digits."""

from typing import ClassVar

import numpy as np
import tensorflow as tf

from zoo.data.augment import random_shift
from zoo.data.labels import stratified_split
from zoo.data.records import Record
from zoo.data.sources.base import Arrays, ArraySource
from zoo.errors import needs_extra

DIGITS_TEST_COUNT = 360


class Source(ArraySource):
    """Scikit-learn's digits, shifted at random in training."""

    class_names: ClassVar = tuple("0123456789")

    def arrays(self) -> tuple[Arrays, Arrays]:
        return digits_arrays()

    def augmented(self, record: Record, seed: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
        image, readable = self.read(record)
        return random_shift(tf.image.resize(image, (size, size)), seed, size), readable


def digits_arrays() -> tuple[Arrays, Arrays]:
    """Loads scikit-learn's handwritten digits with a fixed split.

    Returns:
        Training and test images with labels: uint8 of shape `(count, 8, 8, 3)`; integers.
        The 360 test images are stratified by digit.
    """
    with needs_extra("train"):
        from sklearn.datasets import load_digits
    gray, labels = load_digits(return_X_y=True)
    gray = np.round(np.asarray(gray).reshape(-1, 8, 8, 1) * (255 / 16)).astype("uint8")
    images, labels = np.repeat(gray, 3, axis=-1), np.asarray(labels)
    train, test = stratified_split(labels.tolist(), DIGITS_TEST_COUNT, seed=0)
    return (images[train], labels[train]), (images[test], labels[test])
