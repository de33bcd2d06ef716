"""Batches for `fit` and `evaluate`: pixels, labels, random numbers, order, hosts, warnings."""

import os
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support.arrays import stacked
from support.record_files import jpeg, write_tfds, write_tfrecords

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import Preprocessing
from zoo.config import DataConfig
from zoo.data import load
from zoo.data.augment import color_jitter, fold_in, rand_augment, random_erasing
from zoo.data.crops import decode_center, resize_center
from zoo.data.errors import naming_errors
from zoo.data.load import (
    EvalImages,
    TrainingImages,
    balanced_weights,
    class_warnings,
    held_out_files,
    held_out_preprocessing,
    load_data,
)
from zoo.data.sources.base import IndexedSource
from zoo.data.sources.digits import Digits
from zoo.devices import ONLY_HOST, Host

COUNT, BATCH, CLASSES = 22, 4, 5
RECORDS = IndexedSource(np.arange(COUNT), np.arange(COUNT) % CLASSES, np.arange(COUNT).astype(str))


def numbers(records, seeds):
    """Images of their numbers and both random integers; that of number 7 is unreadable."""
    values = tf.concat([tf.cast(records["image"], tf.int64)[:, None], seeds], 1)
    images = tf.cast(values, tf.float32)[:, None, None]
    return tf.ensure_shape(images, [None, 1, 1, 3]), records["image"] != 7


def test_plain_training_batches():
    train = TrainingImages(RECORDS, numbers, seed=3)
    assert (train.count, train.steps_per_epoch(BATCH), train.step_size(BATCH)) == (22, 5, 4)
    images, labels = stacked(train.batches(BATCH, CLASSES, normalize=False), 6)
    assert (images.shape, images.dtype, labels.dtype) == ((6, 4, 1, 1, 3), "float32", "float32")
    shown = images[:, :, 0, 0]
    assert 7 not in shown[..., 0]
    np.testing.assert_array_equal(labels, np.eye(CLASSES)[shown[..., 0].astype(int) % CLASSES])
    assert (shown[..., 1] == 3).all()
    for batch, first in zip(shown[..., 2], range(0, 24, BATCH), strict=True):
        expected = np.arange(first, first + BATCH)
        lost = batch != expected  # the unreadable image, replaced by the first of the batch
        assert lost.sum() <= 1
        assert (batch[lost] == expected[~lost][0]).all()
    options = train.batches(BATCH, CLASSES, normalize=False).options()
    assert options.experimental_distribute.auto_shard_policy.name == "OFF"
    parts = stacked(train.batches(BATCH, CLASSES, parts=2, normalize=False), 12)[0]
    np.testing.assert_array_equal(parts.reshape(images.shape), images)
    readable = replace(
        train, read_images=lambda *batch: (numbers(*batch)[0], batch[0]["image"] >= 0)
    )
    whole, *hosts = (
        stacked(readable.batches(BATCH, CLASSES, 2, host, normalize=False), 4)
        for host in (ONLY_HOST, Host(0, 2), Host(1, 2))
    )
    for expected, *parts in zip(whole, *hosts, strict=True):
        np.testing.assert_array_equal(np.concatenate(parts, 1), expected)


@pytest.mark.parametrize("host", [ONLY_HOST, Host(1, 2)])
def test_plain_batches_are_mixed_by_seeds_of_their_own(host):
    def mix(images, labels, seed):
        return tf.cast(tf.reshape(seed, [1, 2]), tf.float64), labels

    train = TrainingImages(RECORDS, numbers, 3, mix)
    received = stacked(train.batches(BATCH, CLASSES, 4, host, normalize=False), 2)[0].reshape(2, 2)
    expected = [fold_in([3, step], load.MIXING + host.index).numpy() for step in (4, 5)]
    np.testing.assert_array_equal(received, np.array(expected, "float64"))


def test_plain_test_batches_are_full_and_as_many_on_every_host():
    test = EvalImages(RECORDS, numbers)
    assert test.steps(BATCH) == len(test.batches(BATCH, CLASSES, normalize=False)) == 6
    found = []
    for host in (ONLY_HOST, Host(0, 2), Host(1, 2)):
        images, labels, weights = stacked(test.batches(BATCH, CLASSES, host, normalize=False), 9)
        assert images.shape == (6, BATCH // host.count, 1, 1, 3)
        assert weights.dtype == "float32"
        shown = images[weights == 1][:, 0, 0]
        assert not shown[:, 1:].any()  # no random numbers
        np.testing.assert_array_equal(labels[weights == 1].argmax(-1), shown[:, 0] % CLASSES)
        found.append(shown[:, 0].tolist())
    assert sorted(found[0]) == sorted(found[1] + found[2]) == [*range(7), *range(8, COUNT)]
    assert len(test.sample(100)[0]) == 21
    images, labels = test.sample(3)
    assert images[:, 0, 0, 0].tolist() == [n for n in found[0] if n != 7][:3]


def test_plain_labels_of_several_classes_stay():
    source = SimpleNamespace(count=4, files=(), testing=lambda *_: data)
    data = tf.data.Dataset.from_tensors(
        {"image": tf.constant([1]), "label": tf.constant([[1, 0, 1]])}
    )
    (_, labels, _) = next(iter(EvalImages(source, numbers).batches(1, 3, normalize=False)))
    assert labels.numpy().tolist() == [[1, 0, 1]]


def test_augmentations_have_their_order_and_seeds():
    settings = {"randaugment_magnitude": 7.0, "randaugment_layers": 3, "shift": 0.2}
    config = DataConfig(**settings, color_jitter=0.4, random_erasing=0.9)
    source, preprocessing = Digits(config), Preprocessing(16, 1.0)
    images, _ = source.arrays()[0]
    records = {"image": tf.constant(images[:5]), "name": tf.constant([""] * 5)}
    seeds = tf.stack([fold_in([3, 8], number) for number in range(5)])
    train, test = load.readers(config, source, preprocessing)
    for image, seed, received in zip(images, seeds, train(records, seeds)[0], strict=False):
        expected = source.augmented(lambda image=image: image, seed, 16)
        expected = color_jitter(expected, fold_in(seed, 3), 0.4)
        expected = rand_augment(3, 7.0, 16)(expected, fold_in(seed, 2))
        expected = random_erasing(expected, fold_in(seed, 4), 0.9)
        np.testing.assert_allclose(received, expected, atol=1e-3)
    whole = [resize_center(image, preprocessing) for image in images[:5]]
    plain, _ = load.readers(config.model_copy(update={"augment": False}), source, preprocessing)
    for read in (test, plain):
        np.testing.assert_array_equal(read(records, seeds)[0], whole)


def test_image_folder_gives_the_right_colours(photos):
    name = os.fsencode(photos / "red") + b"/caf\xe9.png"
    os.rename(photos / "red" / "1.png", name)  # no UTF-8
    Image.new("RGB", (30, 30), (200, 30, 30)).convert("CMYK").save(photos / "red" / "m.jpg")
    config = DataConfig(source="image_folder", dir=str(photos), batch_size=4)
    data = load_data(config, 24)
    assert name in [*data.train.source.names, *data.test.source.names]
    images, labels = data.test.sample(100)
    assert images.shape == (5, 24, 24, 3)
    assert 0 <= images.min() < images.max() <= 255
    training_images, training_labels = next(data.train.batches(16, 2).as_numpy_iterator())
    assert training_images.shape == (16, 24, 24, 3)
    pairs = [(preprocess_input(images), labels), (training_images, training_labels.argmax(-1))]
    for images, labels in pairs:
        means = images.mean((1, 2))
        np.testing.assert_array_equal(labels, means[:, 0] > means[:, 2])  # 1 is red


TRUNCATED = 13  # number of the image, of 40, that is cut off


def truncated(folder, source, **settings):
    """Settings of a set of 40 + 20 images, one of each cut off in the middle."""
    images = [jpeg(i, (100, 80)) for i in range(40)]
    images[TRUNCATED] = images[TRUNCATED][:300]
    examples = list(zip(images, range(40), strict=True))
    if source == "tfds":
        write_tfds(folder, "cut", {"train": examples, "validation": examples[:20]})
        settings["name"] = "cut"
    else:
        write_tfrecords(folder / "train-0", examples, list(map(str, range(40))))
        write_tfrecords(folder / "validation-0", examples[:20], list(map(str, range(40))))
        settings["classes"] = 40
    return DataConfig(source=source, dir=str(folder), batch_size=8, **settings)


def test_unreadable_image_is_named_and_the_run_goes_on(tmp_path, capfd):
    config = truncated(tmp_path, "tfrecord", unreadable="skip")
    data = load_data(config, 24)
    labels = stacked(data.train.batches(8, 40), 5)[1].argmax(-1)
    assert TRUNCATED not in labels
    assert sorted(len(set(batch)) for batch in labels.tolist()) == [7, 8, 8, 8, 8]
    assert "data: unreadable image: train" in capfd.readouterr().err
    files, found = held_out_files(config, 24, 100)
    assert (len(files), TRUNCATED in found) == (19, False)
    images, expected = data.test.sample(100)
    np.testing.assert_array_equal(found, expected)
    preprocessing = held_out_preprocessing(config, 24)
    got = np.stack([decode_center(tf.constant(file), preprocessing) for file in files])
    np.testing.assert_array_equal(got, images)


@pytest.mark.parametrize("source", ["tfrecord", pytest.param("tfds", marks=pytest.mark.slow)])
def test_unreadable_image_ends_the_run_with_its_name(source, tmp_path):
    config = truncated(tmp_path, source)
    data = load_data(config, 24)
    name = f"data: unreadable image: train.*{TRUNCATED}"
    with pytest.raises(ValueError, match=name) as caught, naming_errors():
        list(data.train.batches(8, 40).take(5))
    assert "\n" not in str(caught.value)
    for read in (lambda: data.test.sample(100), lambda: held_out_files(config, 24, 100)):
        with pytest.raises(ValueError, match="data: unreadable image: val"):
            read()


def test_plain_batch_of_which_one_image_or_nothing_is_readable():
    def batch(number):
        train = TrainingImages(
            RECORDS, lambda *both: (numbers(*both)[0], both[0]["image"] == number)
        )
        return next(iter(train.batches(COUNT, CLASSES, normalize=False)))

    images, labels = batch(8)
    assert set(images[:, 0, 0, 0].numpy()) == {8}
    assert set(labels.numpy().argmax(-1)) == {8 % CLASSES}
    with pytest.raises(ValueError, match="not one image of a batch"), naming_errors():
        batch(-1)


@pytest.mark.parametrize(
    ("resize", "share", "trained"),
    [("crop", 0, 0.2), ("pad", 1 / 16, 1 / 16), ("squash", 1 / 4, 1 / 4)],
)
def test_the_border_of_wide_images(tmp_path, resize, share, trained):
    """The left quarter is white: its share of the pixels in tests, and on average in training."""
    pixels = np.zeros((10, 40, 3), "uint8")
    pixels[:, :10] = 255
    for number in range(4):
        path = tmp_path / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(path)
    settings = {"dir": str(tmp_path), "test_fraction": 0.5, "batch_size": 2}  # as many as there are
    data = load_data(DataConfig(source="image_folder", resize=resize, **settings), 16)
    assert data.test.sample(1)[0].mean() / 255 == pytest.approx(share, abs=0.01)
    images = next(iter(data.train.examples(2).rebatch(100)))[0].numpy()
    assert images.shape == (100, 16, 16, 3)
    assert images.mean() / 255 == pytest.approx(trained, abs=0.12)
    assert (images.max((1, 2, 3)) > 200).any()


def test_warnings_about_files(photos, tmp_path):
    def warnings(folder, size):
        config = DataConfig(source="image_folder", dir=str(folder), batch_size=4)
        return load_data(config, size).warnings

    assert not [line for line in warnings(photos, 30) if "smaller" in line]
    line = next(line for line in warnings(photos, 31) if "31 pix" in line)
    assert "of 16 training images" in line
    assert "(40 x 30)" in line
    folder = tmp_path / "split"
    shutil.copytree(photos, folder / "train")
    (folder / "val" / "red").mkdir(parents=True)
    (folder / "val" / "blue").mkdir()
    Image.new("RGB", (40, 40)).save(folder / "val" / "red" / "new.png")
    shutil.copy(photos / "red" / "3.jpg", folder / "val" / "blue" / "other name.jpg")
    two_classes, line = warnings(folder, 24)
    assert two_classes == (
        f"1 images are in two classes: {folder}/val/blue/other name.jpg = {folder}/train/red/3.jpg"
    )
    assert line.startswith("1 of 2 test images are in training, too")
    assert line.endswith(f"other name.jpg = {folder}/train/red/3.jpg")


def test_classes_with_few_images_and_unequal_ones():
    names = ["ant", "bee\x1b", "cat", "dog", "eel"]
    labels = [0] * 60 + [1] * 3 + [2] * 9 + [3] * 8 + [4]
    few, unequal = class_warnings(labels, names, weighted=False)
    assert few == (
        "classes with fewer than 10 training images: bee\\x1b (3), cat (9), dog (8) and 1 more"
    )
    assert unequal.startswith("the largest class has 60 times")
    assert class_warnings(labels, names, weighted=True) == [few]
    assert class_warnings([0] * 49 + [1] * 10, ["a", "b"], weighted=False) == []
    (line,) = class_warnings([0] * 50 + [1] * 10, ["a", "b"], weighted=False)
    assert line.startswith("the largest class has 5 times")
    weights = balanced_weights([0] * 6 + [1] * 3 + [2], 3)
    assert [6 * weights[0], 3 * weights[1], weights[2]] == pytest.approx([10 / 3] * 3)
    with pytest.raises(ValueError, match="none of class number 1"):
        balanced_weights([0, 0, 2], 3)
