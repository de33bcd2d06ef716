"""Finds the images that the settings ask for."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.config import DataConfig
from zoo.data.augment import (
    color_jitter,
    fold_in,
    rand_augment,
    random_erasing,
    random_shift,
    random_window,
)
from zoo.data.crops import attempt, decode, decode_window, resize_centre
from zoo.data.digits import digits_arrays
from zoo.data.errors import naming_errors
from zoo.data.findings import of_classes, of_files
from zoo.data.image_folder import Files, list_folder
from zoo.data.mix import either
from zoo.data.pathfinder import CLASS_NAMES, pathfinder_arrays
from zoo.data.pipeline import EvalImages, TrainingImages, View
from zoo.data.sources import IndexedSource, Record, Source, no_autograph
from zoo.data.tfds import open_tfds
from zoo.data.tfrecord import open_tfrecords
from zoo.devices import ALL

# Sources that are pixels already, of whole images: their arrays and classes.
_ARRAYS = {
    "digits": (digits_arrays, tuple("0123456789")),
    "pathfinder": (pathfinder_arrays, CLASS_NAMES),
}


@dataclass(frozen=True)
class ImageData:
    """Training images, held-out test images and the names of the classes.

    Attributes:
        findings: What may go wrong with them, a line each.
    """

    train: TrainingImages
    test: EvalImages
    class_names: tuple[str, ...]
    findings: tuple[str, ...] = ()


def load_data(
    config: DataConfig,
    image_size: int,
    seed: int = 0,
    preprocessing: Preprocessing | None = None,
) -> ImageData:
    """Finds and checks the images, and describes how to read them.

    Args:
        config: Which images.
        image_size: Height and width, in pixels, of the images that the model gets.
        seed: Seed of shuffling and augmentation. Defaults to 0.
        preprocessing: Crop and interpolation of test images that are photographs. Defaults to
            0.875 of the shorter side, bilinear.

    Returns:
        Training images, shuffled anew in every pass, and test images.

    Raises:
        ValueError: If the data set is not there or not what it is said to be, or image files are
            unreadable. If one batch needs more images than there are.
    """
    train, test, class_names, findings = _find(config, image_size)
    if config.batch_size > train.count:
        raise ValueError(
            f"data.batch_size: expected at most {train.count}, the number of training images. "
            f"Received: {config.batch_size}"
        )
    if preprocessing is None or config.source in _ARRAYS:
        # These have no border to leave out, whatever photographs the network was made for.
        preprocessing = held_out_preprocessing(config, image_size)
    train_view, test_view = _views(config, preprocessing)
    images = TrainingImages(train, train_view, seed, either(config.mixup, config.cutmix))
    if images.labels is not None:
        findings += of_classes(images.labels, class_names, config.class_weights is not None)
    return ImageData(images, EvalImages(test, test_view), class_names, tuple(findings))


def held_out_preprocessing(config: DataConfig, image_size: int) -> Preprocessing:
    """Returns what test images of a size go through where nothing else is said."""
    # Of photographs, evaluation looks at as much of the shorter side as is usual for ImageNet.
    return Preprocessing(image_size, 1.0 if config.source in _ARRAYS else 0.875, "bilinear")


def held_out_files(
    config: DataConfig, image_size: int, limit: int
) -> tuple[list[bytes], np.ndarray]:
    """Returns the first test images that can be read, undecoded, and their labels.

    They are at most `limit`, as bytes of files, PNG where the images are no files; labels are
    indices of classes. The image size and what is raised are those of `load_data`.
    """
    test = load_data(config, image_size).test

    @no_autograph
    def readable(record: Record) -> tf.Tensor:
        return test.view(record, tf.zeros(2, tf.int64))[1]

    @no_autograph
    def undecoded(record: Record) -> tuple[tf.Tensor, tf.Tensor]:
        return _encoded(config, record), record["label"]

    records = test.source.testing(1, ALL).filter(readable).map(undecoded).take(limit)
    with naming_errors():
        files, labels = zip(*records.as_numpy_iterator(), strict=True)
    return list(files), np.asarray(labels)


def _find(config: DataConfig, image_size: int) -> tuple[Source, Source, tuple[str, ...], list[str]]:
    """Returns training and test images, the names of the classes, and what was found."""
    if config.source in _ARRAYS:
        arrays, class_names = _ARRAYS[config.source]
        train, test = (
            IndexedSource(images, labels, np.arange(len(images)).astype(str))
            for images, labels in arrays()
        )
        return train, test, class_names, []
    if config.source == "image_folder":
        train, test, class_names = list_folder(
            Path(config.dir or ""),
            config.test_fraction,
            config.split_seed,
            config.unreadable == "skip",
        )
        return _files(train), _files(test), class_names, of_files(train, test, image_size)
    if config.source == "tfds":
        splits = config.train_split, config.test_split
        return *open_tfds(config.name or "", config.dir, splits, config.shuffle_buffer), []
    return *open_tfrecords(config.dir or "", config.classes or 0, config.shuffle_buffer), []


def _files(files: Files) -> IndexedSource:
    paths = np.asarray([os.fsencode(path) for path in files.paths])
    return IndexedSource(paths, np.asarray(files.labels), paths)


def _views(config: DataConfig, preprocessing: Preprocessing) -> tuple[View, View]:
    """Returns what training images and what test images go through."""
    test = partial(_centre, config, preprocessing)
    if not config.augment:
        return test, test
    size = preprocessing.image_size
    views = {"digits": _shifted, "pathfinder": _flipped}
    train = partial(views.get(config.source, _random_crop), config, size)
    changes = _changes(config, size)

    def augmented(record: Record, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image, readable = train(record, seed)
        for number, change in changes.items():
            image = change(image, fold_in(seed, number))
        return image, readable

    return augmented if changes else train, test


def _changes(config: DataConfig, size: int) -> dict[int, Callable[..., tf.Tensor]]:
    """Returns what comes after crops and flips, by the number that makes its seed its own."""
    changes: dict[int, Callable[..., tf.Tensor]] = {}
    if config.color_jitter is not None:
        changes[3] = partial(color_jitter, strength=config.color_jitter)
    if config.randaugment_magnitude is not None:
        changes[2] = rand_augment(config.randaugment_layers, config.randaugment_magnitude, size)
    if config.random_erasing is not None:
        changes[4] = partial(random_erasing, probability=config.random_erasing)
    return changes


def _centre(
    config: DataConfig, preprocessing: Preprocessing, record: Record, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    image, readable = _read(config, record, decode)
    return resize_centre(image, preprocessing), readable


def _shifted(
    config: DataConfig, size: int, record: Record, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    image, readable = _read(config, record, decode)
    return random_shift(tf.image.resize(image, (size, size)), seed, size), readable


def _flipped(
    config: DataConfig, size: int, record: Record, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    image, readable = _read(config, record, decode)
    image = tf.image.resize(image, (size, size))
    return tf.image.stateless_random_flip_up_down(image, seed), readable


def _random_crop(
    config: DataConfig, size: int, record: Record, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    window = partial(random_window, seed=seed)
    crop, readable = _read(config, record, partial(decode_window, window=window))
    image = tf.image.resize(crop, (size, size))
    # Another seed than the crop's: the two would not be independent.
    return tf.image.stateless_random_flip_left_right(image, fold_in(seed, 1)), readable


def _read(
    config: DataConfig, record: Record, decoder: Callable[[tf.Tensor], tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns an image, and whether it could be read."""
    if config.source in _ARRAYS:
        return record["image"], tf.constant(True)
    return attempt(
        lambda: decoder(_encoded(config, record)), record["name"], config.unreadable == "skip"
    )


def _encoded(config: DataConfig, record: Record) -> tf.Tensor:
    """Returns the bytes of an image's file."""
    image = record["image"]
    if config.source == "image_folder":
        return tf.io.read_file(image)
    return tf.io.encode_png(image) if config.source in _ARRAYS else image
