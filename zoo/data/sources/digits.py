"""Scikit-learn's handwritten digits."""

from typing import ClassVar

import numpy as np
import tensorflow as tf

from zoo.data.augment import random_shift
from zoo.data.sources.base import Arrays, ArraySource, Record
from zoo.errors import needs_extra

TEST_COUNT = 360


def load_gray_digits() -> tuple[Arrays, Arrays]:
    """Loads gray levels from 0 to 16 `(count, 8, 8)` and labels; the split is fixed, stratified."""
    with needs_extra("train"):
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    gray, labels = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        np.asarray(gray).reshape(-1, 8, 8),
        labels,
        test_size=TEST_COUNT,
        stratify=labels,
        random_state=0,
    )
    return (train.astype("int32"), train_labels), (test.astype("int32"), test_labels)


class Source(ArraySource):
    """Scikit-learn's digits, shifted at random in training: flips would turn some into others."""

    class_names: ClassVar = tuple("0123456789")

    def arrays(self) -> tuple[Arrays, Arrays]:
        """Loads uint8 images `(count, 8, 8, 3)` and labels."""

        def in_color(digits: Arrays) -> Arrays:
            gray, labels = digits
            pixels = np.round(gray[..., None] * (255 / 16)).astype("uint8")
            return np.repeat(pixels, 3, axis=-1), labels

        train, test = load_gray_digits()
        return in_color(train), in_color(test)

    def augmented(self, record: Record, seed: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
        image, readable = self.read(record)
        return random_shift(tf.image.resize(image, (size, size)), seed, size), readable
