"""Handwritten digits."""

import numpy as np

from lambda_keras.applications import preprocess_input
from zoo.config import DataConfig
from zoo.data.load import load_data
from zoo.data.sources.digits import TEST_COUNT, Source


def as_rows(images):
    return {image.tobytes() for image in images}


def test_split_is_disjoint_fixed_and_even():
    (train, train_labels), (test, test_labels) = Source(DataConfig()).arrays()
    assert (len(train), len(test)) == (1437, TEST_COUNT)
    assert train.dtype == "uint8"
    assert train.shape[1:] == (8, 8, 3)
    assert train.max() == 255
    assert not as_rows(train) & as_rows(test)
    assert np.bincount(test_labels).tolist() == [36, 36, 35, 37, 36, 37, 36, 36, 35, 36]
    assert len(train_labels) == 1437
    again = Source(DataConfig()).arrays()
    np.testing.assert_array_equal(again[1][0], test)
    # Another beginning would mean another held-out set.
    assert test_labels[:10].tolist() == [7, 6, 3, 7, 7, 3, 2, 8, 9, 3]


def test_test_images_are_those_of_the_split():
    data = load_data(DataConfig(), image_size=8)
    images, labels = data.test.sample(1000)
    (_, _), (expected, expected_labels) = Source(DataConfig()).arrays()
    assert len(images) == data.test.count == TEST_COUNT
    assert as_rows(images.astype("uint8")) == as_rows(expected)
    np.testing.assert_array_equal(np.bincount(labels), np.bincount(expected_labels))
    got = np.concatenate([images for images, _, _ in data.test.batches(100, 10)])
    np.testing.assert_allclose(got[:TEST_COUNT], preprocess_input(images), atol=1e-6)


def test_every_epoch_has_all_images_in_another_order():
    data = load_data(DataConfig(augment=False), image_size=8)
    steps = data.train.steps_per_epoch(479)
    assert steps * 479 == data.train.count == 1437
    images, labels = zip(
        *data.train.batches(479, 10).take(2 * steps).as_numpy_iterator(), strict=True
    )
    epochs = np.stack(images).reshape(2, 1437, -1)
    assert as_rows(epochs[0]) == as_rows(epochs[1])
    assert not np.array_equal(*epochs)
    (expected, expected_labels), _ = Source(DataConfig()).arrays()
    assert as_rows(epochs[0]) == as_rows(preprocess_input(expected).reshape(1437, -1))
    seen = np.concatenate(labels[:steps]).argmax(-1)
    np.testing.assert_array_equal(np.bincount(seen), np.bincount(expected_labels))


def test_what_a_batch_leaves_over_differs_between_epochs():
    data = load_data(DataConfig(augment=False), image_size=8)
    seen = [
        as_rows(images) for images, _ in data.train.batches(1000, 10).take(2).as_numpy_iterator()
    ]
    assert min(map(len, seen)) > 990
    assert seen[0] != seen[1]
