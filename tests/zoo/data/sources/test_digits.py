"""Handwritten digits."""

import numpy as np
import tensorflow as tf

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.config import DataConfig
from zoo.data.augment import random_shift
from zoo.data.load import load_data
from zoo.data.sources.digits import TEST_COUNT, Digits


def as_rows(images):
    return {image.tobytes() for image in images}


def test_split_is_disjoint_fixed_and_even():
    (train, train_labels), (test, test_labels) = Digits(DataConfig()).arrays()
    assert (len(train), len(test), len(train_labels)) == (1437, TEST_COUNT, 1437)
    assert (train.dtype, train.shape[1:], train.max()) == ("uint8", (8, 8, 3), 255)
    assert not as_rows(train) & as_rows(test)
    assert np.bincount(test_labels).tolist() == [36, 36, 35, 37, 36, 37, 36, 36, 35, 36]
    # Another beginning would mean another held-out set.
    assert test_labels[:10].tolist() == [7, 6, 3, 7, 7, 3, 2, 8, 9, 3]


def test_images_of_training_and_tests():
    # Whatever crop the network was trained with.
    data = load_data(DataConfig(), 8, preprocessing=Preprocessing(8, 0.5))
    assert data.class_names == tuple("0123456789")
    images, labels = data.test.sample(1000)
    _, (expected, expected_labels) = Digits(DataConfig()).arrays()
    known = {image.tobytes(): label for image, label in zip(expected, expected_labels, strict=True)}
    assert as_rows(images.astype("uint8")) == known.keys()  # the whole image, without a crop
    assert [known[image.astype("uint8").tobytes()] for image in images] == labels.tolist()
    seed = tf.constant([3, 5], tf.int64)
    shifted = Digits(DataConfig()).augmented(lambda: expected[0], seed, 16)
    larger = tf.image.resize(expected[0], (16, 16))
    np.testing.assert_array_equal(shifted, random_shift(larger, seed, 16, 0.125))
