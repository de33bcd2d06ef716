"""Training and test images by their settings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module

import numpy as np
import tensorflow as tf

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.config import DataConfig
from zoo.data.augment import color_jitter, either, fold_in, random_erasing
from zoo.data.crops import resize_center
from zoo.data.errors import naming_errors
from zoo.data.labels import class_warnings
from zoo.data.pipeline import EvalImages, ReadImage, TrainingImages
from zoo.data.rand_augment import rand_augment
from zoo.data.records import Record, no_autograph
from zoo.data.sources.base import DataSource
from zoo.devices import ONLY_HOST


@dataclass(frozen=True)
class ImageData:
    """Training images, held-out test images and the names of the classes.

    Attributes:
        warnings: Dataset warnings, one line each.
    """

    train: TrainingImages
    test: EvalImages
    class_names: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def load_data(
    config: DataConfig,
    image_size: int,
    seed: int = 0,
    preprocessing: Preprocessing | None = None,
) -> ImageData:
    """Finds and checks the images.

    Args:
        config: Settings of the images.
        image_size: Height and width of the model's images in pixels.
        seed: Seed of shuffling and augmentation. Defaults to 0.
        preprocessing: Crop and interpolation of test images that are image files. Defaults to
            None: 0.875 of the shorter side, bilinear.

    Returns:
        Training images, shuffled anew in every pass, and test images.

    Raises:
        ValueError: If the dataset is missing or not as described, image files are unreadable, or
            a batch needs more images than there are.
    """
    source = _source(config)
    split = source.open(image_size)
    if config.batch_size > split.train.count:
        raise ValueError(
            f"data.batch_size: expected at most {split.train.count}, the number of training "
            f"images. Received: {config.batch_size}"
        )
    # Images of sources without a border are never cropped, whatever the network was trained on.
    if preprocessing is None or source.crop == 1:
        preprocessing = held_out_preprocessing(config, image_size)
    read_train, read_test = _readers(config, source, preprocessing)
    train = TrainingImages(split.train, read_train, seed, either(config.mixup, config.cutmix))
    warnings = split.warnings
    if train.labels is not None:
        weighted = config.class_weights is not None
        warnings = (*warnings, *class_warnings(train.labels, split.class_names, weighted))
    return ImageData(train, EvalImages(split.test, read_test), split.class_names, warnings)


def held_out_preprocessing(config: DataConfig, image_size: int) -> Preprocessing:
    """Returns the default evaluation preprocessing for images of a size."""
    return Preprocessing(image_size, _source(config).crop, "bilinear")


def held_out_files(
    config: DataConfig, image_size: int, limit: int
) -> tuple[list[bytes], np.ndarray]:
    """Returns the first readable test images, at most `limit`, and the indices of their classes.

    Images are the contents of image files (PNG for images in memory).
    """
    source, test = _source(config), load_data(config, image_size).test

    @no_autograph
    def readable(record: Record) -> tf.Tensor:
        return test.read_image(record, tf.zeros(2, tf.int64))[1]

    @no_autograph
    def undecoded(record: Record) -> tuple[tf.Tensor, tf.Tensor]:
        return source.encoded(record), record["label"]

    records = test.source.testing(1, ONLY_HOST).filter(readable).map(undecoded).take(limit)
    with naming_errors():
        files, labels = zip(*records.as_numpy_iterator(), strict=True)
    return list(files), np.asarray(labels)


def _source(config: DataConfig) -> DataSource:
    return import_module(f"zoo.data.sources.{config.source}").Source(config)


def _readers(
    config: DataConfig, source: DataSource, preprocessing: Preprocessing
) -> tuple[ReadImage, ReadImage]:
    """Returns the preprocessing of training images and of test images."""
    size = preprocessing.image_size

    def test(record: Record, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image, readable = source.read(record)
        return resize_center(image, preprocessing), readable

    if not config.augment:
        return test, test
    # Optional augmentations, each with the constant that is folded into its seed.
    changes: dict[int, Callable[..., tf.Tensor]] = {}
    if config.color_jitter is not None:
        changes[3] = partial(color_jitter, strength=config.color_jitter)
    if config.randaugment_magnitude is not None:
        changes[2] = rand_augment(config.randaugment_layers, config.randaugment_magnitude, size)
    if config.random_erasing is not None:
        changes[4] = partial(random_erasing, probability=config.random_erasing)

    def train(record: Record, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image, readable = source.augmented(record, seed, size)
        for number, change in changes.items():
            image = change(image, fold_in(seed, number))
        return image, readable

    return train, test
