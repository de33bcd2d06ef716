"""Pipelines: what the model gets, in which order, from which images."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lambda_keras.applications import preprocess_input
from zoo.config import DataConfig
from zoo.data import DIGITS_TEST_COUNT, digits_arrays, load_data, resize_centre


def as_rows(images):
    return {image.tobytes() for image in images}


def test_digits_split_is_disjoint_fixed_and_even():
    (train, train_labels), (test, test_labels) = digits_arrays()
    assert (len(train), len(test)) == (1437, DIGITS_TEST_COUNT)
    assert train.dtype == "uint8"
    assert train.shape[1:] == (8, 8, 3)
    assert train.max() == 255
    assert not as_rows(train) & as_rows(test)
    assert np.bincount(test_labels).tolist() == [36, 36, 35, 37, 36, 37, 36, 36, 35, 36]
    assert len(train_labels) == 1437
    again = digits_arrays()
    np.testing.assert_array_equal(again[1][0], test)
    # Another beginning would mean another held-out set.
    assert test_labels[:10].tolist() == [7, 6, 3, 7, 7, 3, 2, 8, 9, 3]


def test_digits_batches():
    data = load_data(DataConfig(batch_size=32), image_size=16)
    images, labels = next(iter(data.train.batches(32, 10)))
    assert images.shape == (32, 16, 16, 3)
    assert images.dtype == tf.float32
    np.testing.assert_array_equal(np.sum(labels, -1), np.ones(32))
    assert data.class_names == tuple("0123456789")


def test_digits_test_images_are_those_of_the_split():
    data = load_data(DataConfig(), image_size=8)
    images, labels = data.test.sample(1000)
    (_, _), (expected, expected_labels) = digits_arrays()
    assert len(images) == data.test.count == DIGITS_TEST_COUNT
    assert as_rows(images.astype("uint8")) == as_rows(expected)
    np.testing.assert_array_equal(np.bincount(labels), np.bincount(expected_labels))
    batches = data.test.batches(100, 10)
    got = np.concatenate([batch for batch, _ in batches])
    np.testing.assert_allclose(got, preprocess_input(images), atol=1e-6)


def batches(data, batch_size, count, first_step=0):
    """Arrays of the first batches: images `(count, batch_size, ...)`, and labels alike."""
    stream = data.train.batches(batch_size, len(data.class_names), first_step)
    images, labels = zip(*stream.take(count).as_numpy_iterator(), strict=True)
    return np.stack(images), np.stack(labels).argmax(-1)


def test_training_order_and_augmentation_follow_the_seed():
    def first(seed):
        return batches(load_data(DataConfig(), image_size=16, seed=seed), 20, 1)[0]

    np.testing.assert_array_equal(first(1), first(1))
    assert not np.array_equal(first(1), first(2))


def test_every_epoch_has_all_images_in_another_order():
    data = load_data(DataConfig(augment=False), image_size=8)
    steps = data.train.steps_per_epoch(479)
    assert steps * 479 == data.train.count == 1437
    images, labels = batches(data, 479, 2 * steps)
    epochs = images.reshape(2, 1437, -1)
    assert as_rows(epochs[0]) == as_rows(epochs[1])
    assert not np.array_equal(*epochs)
    (expected, expected_labels), _ = digits_arrays()
    assert as_rows(epochs[0]) == as_rows(preprocess_input(expected).reshape(1437, -1))
    np.testing.assert_array_equal(np.bincount(labels[:steps].ravel()), np.bincount(expected_labels))


def test_what_a_batch_leaves_over_differs_between_epochs():
    data = load_data(DataConfig(augment=False), image_size=8)
    images, _ = batches(data, 1000, 2)
    seen = [as_rows(epoch) for epoch in images]
    assert min(map(len, seen)) > 990
    assert seen[0] != seen[1]


def test_augmentation_differs_between_epochs():
    data = load_data(DataConfig(), image_size=16)
    epochs = batches(data, 1437, 2)[0]
    assert len(as_rows(epochs[0]) - as_rows(epochs[1])) > 1000


@pytest.mark.parametrize("first_step", [1, 44, 50])
def test_stream_can_be_entered_at_any_step(first_step):
    """44 steps are an epoch: an interrupted run sees what it would have seen."""
    data = load_data(DataConfig(), image_size=16)
    whole, labels = batches(data, 32, first_step + 2)
    rest, rest_labels = batches(data, 32, 2, first_step)
    np.testing.assert_array_equal(rest, whole[first_step:])
    np.testing.assert_array_equal(rest_labels, labels[first_step:])


def test_workers_share_a_batch():
    """Every second example each, so that both batches together are the one of a single worker."""
    data = load_data(DataConfig(), image_size=16)
    (whole,), _ = batches(data, 32, 1)
    stream = data.train.batches(32, 10)
    assert stream.options().experimental_distribute.auto_shard_policy.name == "DATA"
    halves = whole[0::2], whole[1::2]
    assert as_rows(halves[0]) | as_rows(halves[1]) == as_rows(whole)


def test_batch_larger_than_the_data():
    with pytest.raises(ValueError, match=r"data\.batch_size: expected at most 1437"):
        load_data(DataConfig(batch_size=2000), image_size=8)


@pytest.mark.parametrize("augment", [True, False])
def test_image_folder_gives_the_right_colours(photos, augment):
    config = DataConfig(source="image_folder", dir=photos, batch_size=4, augment=augment)
    data = load_data(config, image_size=24)
    images, labels = data.test.sample(100)
    assert images.shape == (4, 24, 24, 3)
    assert images.min() >= 0
    assert images.max() <= 255
    (training_images,), (training_labels,) = batches(data, 16, 1)
    assert training_images.shape == (16, 24, 24, 3)
    pairs = [(preprocess_input(images), labels), (training_images, training_labels)]
    for images, labels in pairs:
        means = images.mean((1, 2))
        np.testing.assert_array_equal(labels, means[:, 0] > means[:, 2])  # 1 is red
    assert set(data.test.sample(3)[1]) == {0, 1}


def test_unreadable_file_stops_before_training(photos):
    (photos / "red" / "0.jpg").write_bytes(b"\xff\xd8 no more")
    config = DataConfig(source="image_folder", dir=photos, batch_size=4)
    with pytest.raises(ValueError, match=r"unreadable image files: .*red/0\.jpg"):
        load_data(config, image_size=24)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK"])
def test_all_colour_modes_become_rgb(photos, mode):
    suffix = "jpg" if mode == "CMYK" else "png"
    Image.new("RGB", (30, 30), (200, 30, 30)).convert(mode).save(photos / "red" / f"m.{suffix}")
    config = DataConfig(source="image_folder", dir=photos, batch_size=4, augment=False)
    data = load_data(config, image_size=16)
    assert batches(data, 4, 4)[0].shape == (4, 4, 16, 16, 3)


@pytest.mark.parametrize("shape", [(40, 80), (80, 40), (1, 1), (33, 33)])
def test_resize_centre_keeps_the_middle(shape):
    image = np.zeros((*shape, 3), "uint8")
    height, width = shape
    image[height // 4 : -(-height * 3 // 4), width // 4 : -(-width * 3 // 4)] = 255
    got = np.asarray(resize_centre(tf.constant(image), 16))
    assert got.shape == (16, 16, 3)
    np.testing.assert_allclose(got[8, 8], [255] * 3, rtol=1e-6)


def test_resize_centre_is_resizing_and_cropping():
    image = tf.constant(np.random.default_rng(0).integers(0, 256, (64, 128, 3)).astype("uint8"))
    got = resize_centre(image, 28)
    resized = tf.image.resize(image, (32, 64), antialias=True)
    expected = tf.image.resize_with_crop_or_pad(resized, 28, 28)
    np.testing.assert_allclose(got[2:-2, 2:-2], expected[2:-2, 2:-2], atol=1e-3)
