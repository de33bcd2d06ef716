"""Scikit-learn's handwritten digits."""

from typing import ClassVar

import numpy as np
import tensorflow as tf

from zoo.data.augment import random_shift
from zoo.data.sources.base import DataSource, IndexedSource, Read, Split
from zoo.data.sources.stored import Pixels
from zoo.errors import needs_extra

TEST_COUNT = 360

Arrays = tuple[np.ndarray, np.ndarray]  # images and labels


def load_gray_digits() -> tuple[Arrays, Arrays]:
    """Loads gray levels from 0 to 16 `(count, 8, 8)` and labels; the split is fixed, stratified."""
    with needs_extra("train"):
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    gray, labels = load_digits(return_X_y=True)
    images = np.asarray(gray).reshape(-1, 8, 8).astype("int32")
    train, test, train_labels, test_labels = train_test_split(
        images, labels, test_size=TEST_COUNT, stratify=labels, random_state=0
    )
    return (train, train_labels), (test, test_labels)


class Digits(DataSource):
    """Scikit-learn's digits, shifted at random in training: flips would turn some into others."""

    stored: ClassVar = Pixels()
    crop: ClassVar = 1.0  # there is no border

    def open(self, image_size: int) -> Split:
        train, test = (
            IndexedSource(images, labels, np.arange(len(images)).astype(str))
            for images, labels in self.arrays()
        )
        return Split(train, test, tuple("0123456789"))

    def arrays(self) -> tuple[Arrays, Arrays]:
        """Loads uint8 images `(count, 8, 8, 3)` and labels, for training and for the test."""
        train, test = (
            (np.repeat(np.round(gray[..., None] * (255 / 16)).astype("uint8"), 3, -1), labels)
            for gray, labels in load_gray_digits()
        )
        return train, test

    def augmented(self, read: Read, seed: tf.Tensor, size: int) -> tf.Tensor:
        larger = tf.image.resize(read(), (size, size))
        return random_shift(larger, seed, size, self.config.shift or 0.125)
