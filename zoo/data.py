"""Images to train and test on, as tf.data pipelines without Python in them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from lambda_keras.applications import preprocess_input
from zoo.augment import random_crop_and_flip, random_shift
from zoo.config import DataConfig
from zoo.errors import needs_extra
from zoo.image_folder import Files, check_readable, list_folder
from zoo.split import stratified_split

DIGITS_TEST_COUNT = 360
CENTRE_CROP = 0.875  # part of the shorter side that evaluation looks at, as usual for ImageNet
# Orders test images once, so that the first few are of all classes.
TEST_ORDER_SEED = 0

# Takes a record and two random integers; returns an image in [0, 255] and its label.
Decode = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


@dataclass(frozen=True)
class Split:
    """Part of a data set.

    Attributes:
        examples: Dataset of images, float32 in [0, 255] of shape `(size, size, 3)`, and integer
            labels.
        count: Number of images.
    """

    examples: tf.data.Dataset
    count: int

    def sample(self, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the first images and labels, at most `limit` of them, as arrays."""
        images, labels = zip(*self.examples.take(limit).as_numpy_iterator(), strict=True)
        return np.stack(images), np.asarray(labels)

    def batches(self, batch_size: int, classes: int, drop_remainder: bool) -> tf.data.Dataset:
        """Returns what `model.fit` takes: preprocessed batches with one-hot labels.

        Args:
            batch_size: Images per batch.
            classes: Number of classes.
            drop_remainder: Whether to leave out a last batch with fewer images.
        """

        def finish(images: tf.Tensor, labels: tf.Tensor):
            return preprocess_input(images), tf.one_hot(labels, classes)

        batches = self.examples.batch(batch_size, drop_remainder=drop_remainder)
        return batches.map(finish, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


@dataclass(frozen=True)
class ImageData:
    """Training images, held-out test images and the names of the classes."""

    train: Split
    test: Split
    class_names: tuple[str, ...]


def load_data(config: DataConfig, image_size: int, seed: int = 0) -> ImageData:
    """Finds and checks the images, and describes how to read them.

    Args:
        config: Which images.
        image_size: Height and width, in pixels, of the images that the model gets.
        seed: Seed of shuffling and augmentation. Defaults to 0.

    Returns:
        Pipelines; the training one is shuffled anew in every pass.

    Raises:
        ValueError: If the folder is missing or has no two classes, or a class has no images.
            If image files are unreadable. If one batch needs more images than there are.
    """
    if config.source == "digits":
        data = _digits(config, image_size, seed)
    else:
        data = _image_folder(config, image_size, seed)
    if config.batch_size > data.train.count:
        raise ValueError(
            f"data.batch_size: expected at most {data.train.count}, the number of training images. "
            f"Received: {config.batch_size}"
        )
    return data


def digits_arrays() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Returns scikit-learn's handwritten digits, split once and for all.

    Returns:
        Training and test images with labels: uint8 of shape `(count, 8, 8, 3)`; integers.
        The 360 test images have the ten digits in the proportions of the whole.
    """
    with needs_extra("train"):
        from sklearn.datasets import load_digits
    gray, labels = load_digits(return_X_y=True)
    gray = np.round(np.asarray(gray).reshape(-1, 8, 8, 1) * (255 / 16)).astype("uint8")
    images, labels = np.repeat(gray, 3, axis=-1), np.asarray(labels)
    train, test = stratified_split(labels.tolist(), DIGITS_TEST_COUNT, seed=0)
    return (images[train], labels[train]), (images[test], labels[test])


def _digits(config: DataConfig, image_size: int, seed: int) -> ImageData:
    def resize(image: tf.Tensor, label: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.image.resize(image, (image_size, image_size)), label

    def shift(image: tf.Tensor, label: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image, label = resize(image, label, seed)
        return random_shift(image, seed, image_size), label

    train, test = digits_arrays()
    return ImageData(
        _training_split(*train, shift if config.augment else resize, seed),
        _test_split(*test, resize),
        tuple("0123456789"),
    )


def _image_folder(config: DataConfig, image_size: int, seed: int) -> ImageData:
    def centre(path: tf.Tensor, label: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return resize_centre(_decode(path), image_size), label

    def crop(path: tf.Tensor, label: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return random_crop_and_flip(_decode(path), seed, image_size), label

    train, test, class_names = list_folder(
        Path(config.dir or ""), config.test_fraction, config.split_seed
    )
    check_readable(train.paths + test.paths)
    return ImageData(
        _training_split(*_arrays(train), crop if config.augment else centre, seed),
        _test_split(*_arrays(test), centre),
        class_names,
    )


def resize_centre(image: tf.Tensor, size: int) -> tf.Tensor:
    """Cuts the central square out of an image and resizes it.

    The same as resizing the shorter side to `size / 0.875` and cropping the centre, but it
    resizes fewer pixels.

    Args:
        image: Image of shape `(height, width, 3)`.
        size: Height and width of the result in pixels.
    """
    height, width = tf.shape(image)[0], tf.shape(image)[1]
    side = tf.cast(CENTRE_CROP * tf.cast(tf.minimum(height, width), tf.float32), tf.int32)
    side = tf.maximum(side, 1)
    top, left = (height - side) // 2, (width - side) // 2
    square = tf.image.crop_to_bounding_box(image, top, left, side, side)
    return tf.image.resize(square, (size, size), antialias=True)


def _decode(path: tf.Tensor) -> tf.Tensor:
    return tf.io.decode_image(tf.io.read_file(path), channels=3, expand_animations=False)


def _arrays(files: Files) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(files.paths), np.asarray(files.labels)


def _training_split(records: np.ndarray, labels: np.ndarray, decode: Decode, seed: int) -> Split:
    count = len(records)
    examples = tf.data.Dataset.from_tensor_slices((records, labels))
    # Paths and 8x8 digits are small: shuffling comes before decoding.
    examples = examples.shuffle(count, seed=seed)
    seeds = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True).batch(2)

    def decode_next(example: tuple[tf.Tensor, tf.Tensor], seed: tf.Tensor):
        record, label = example
        return decode(record, label, seed)

    return Split(tf.data.Dataset.zip(examples, seeds).map(decode_next, tf.data.AUTOTUNE), count)


def _test_split(records: np.ndarray, labels: np.ndarray, decode: Decode) -> Split:
    order = np.random.default_rng(TEST_ORDER_SEED).permutation(len(records))
    examples = tf.data.Dataset.from_tensor_slices((records[order], labels[order]))
    no_seed = tf.zeros(2, tf.int64)
    examples = examples.map(lambda record, label: decode(record, label, no_seed), tf.data.AUTOTUNE)
    return Split(examples, len(records))
