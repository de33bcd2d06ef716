"""Training and test images by their settings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module

import numpy as np
import tensorflow as tf

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.config import DataConfig
from zoo.data.augment import color_jitter, either, fold_in, random_erasing
from zoo.data.crops import resize_center
from zoo.data.errors import naming_errors, no_autograph
from zoo.data.pipeline import EvalImages, ReadImage, TrainingImages
from zoo.data.rand_augment import rand_augment
from zoo.data.sources.base import DataSource, Record
from zoo.devices import ONLY_HOST
from zoo.errors import printable, some

FEW = 10  # images of a class, below which a network hardly learns it
UNEQUAL = 5  # ratio of the largest class to the smallest, from which class weights are advised


@dataclass(frozen=True)
class ImageData:
    """Training images, held-out test images, class names, and dataset warnings of a line each."""

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
    """Finds and checks the images, for a model of images of this height and width in pixels.

    `preprocessing` is for test images that are image files; None: `held_out_preprocessing`.
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


def balanced_weights(labels: Sequence[int] | np.ndarray, classes: int) -> list[float]:
    """Returns weights that give all classes the same total weight, and images 1 on average."""
    counts = np.bincount(labels, minlength=classes)
    if not counts.all():
        raise ValueError(
            "data.class_weights: expected training images of every class. Received: none of class "
            f"number {counts.argmin()}"
        )
    return (len(labels) / (classes * counts)).tolist()


def class_warnings(
    labels: Sequence[int] | np.ndarray, class_names: Sequence[str], weighted: bool
) -> list[str]:
    """Returns a line on classes with few training images, and one on unequal unweighted ones."""
    lines = []
    counts = np.bincount(np.asarray(labels), minlength=len(class_names))
    rare = np.flatnonzero(counts < FEW).tolist()
    few = [f"{printable(class_names[i])} ({counts[i]})" for i in rare]
    if few:
        lines.append(f"classes with fewer than {FEW} training images: {some(few)}")
    ratio = counts.max() / max(counts.min(), 1)
    if ratio >= UNEQUAL and not weighted:
        lines.append(
            f"the largest class has {ratio:.0f} times the images of the smallest: "
            "--data.class_weights balanced lets every class count as much"
        )
    return lines


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
