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
class TrainingImages:
    """Training images as an endless stream that can be entered at any step.

    Order, augmentation and position are functions of the seed and the number of the example, so a
    run that goes on after an interruption sees what it would have seen.

    Attributes:
        records: What `decode` reads images from, and their labels.
        labels: Class indices.
        decode: Reads and augments one example.
        seed: Of order and augmentation.
    """

    records: np.ndarray
    labels: np.ndarray
    decode: Decode
    seed: int

    @property
    def count(self) -> int:
        """Number of images."""
        return len(self.records)

    def steps_per_epoch(self, batch_size: int) -> int:
        """Returns the full batches of one pass; what is left over is others in every pass."""
        return self.count // batch_size

    def batches(self, batch_size: int, classes: int, first_step: int = 0) -> tf.data.Dataset:
        """Returns what `model.fit` takes: preprocessed batches with one-hot labels, without end.

        Args:
            batch_size: Images per batch.
            classes: Number of classes.
            first_step: Number of batches before the first one. Defaults to 0.
        """
        epoch_size = self.steps_per_epoch(batch_size) * batch_size
        records, labels = tf.constant(self.records), tf.constant(self.labels)

        def example(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            order = tf.stack(
                [tf.constant(self.seed, tf.int64), tf.math.floordiv(number, epoch_size)]
            )
            index = tf.random.experimental.index_shuffle(  # pyright: ignore
                tf.math.floormod(number, epoch_size), order, tf.constant(self.count - 1, tf.int64)
            )
            seed = tf.stack([tf.constant(self.seed, tf.int64), number])
            return self.decode(tf.gather(records, index), tf.gather(labels, index), seed)

        # Several workers take turns at the numbers, so that their batches make up the whole one.
        examples = tf.data.Dataset.range(first_step * batch_size, tf.int64.max)
        batches = examples.map(example, tf.data.AUTOTUNE).batch(batch_size, drop_remainder=True)
        return _finish(batches, classes)


@dataclass(frozen=True)
class TestImages:
    """Test images, in an order of all classes.

    Attributes:
        examples: Dataset of images, float32 in [0, 255] of shape `(size, size, 3)`, and integer
            labels.
        count: Number of images.
    """

    examples: tf.data.Dataset
    count: int

    def steps(self, batch_size: int) -> int:
        """Returns the batches of a pass, of which the last may have fewer images."""
        return -(-self.count // batch_size)

    def sample(self, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the first images and labels, at most `limit` of them, as arrays."""
        images, labels = zip(*self.examples.take(limit).as_numpy_iterator(), strict=True)
        return np.stack(images), np.asarray(labels)

    def batches(self, batch_size: int, classes: int) -> tf.data.Dataset:
        """Returns what `model.evaluate` takes: preprocessed batches with one-hot labels."""
        return _finish(self.examples.batch(batch_size), classes)


@dataclass(frozen=True)
class ImageData:
    """Training images, held-out test images and the names of the classes."""

    train: TrainingImages
    test: TestImages
    class_names: tuple[str, ...]


def _finish(batches: tf.data.Dataset, classes: int) -> tf.data.Dataset:
    def finish(images: tf.Tensor, labels: tf.Tensor):
        return preprocess_input(images), tf.one_hot(labels, classes)

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    batches = batches.map(finish, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    return batches.with_options(options)


def load_data(config: DataConfig, image_size: int, seed: int = 0) -> ImageData:
    """Finds and checks the images, and describes how to read them.

    Args:
        config: Which images.
        image_size: Height and width, in pixels, of the images that the model gets.
        seed: Seed of shuffling and augmentation. Defaults to 0.

    Returns:
        Training images, shuffled anew in every pass, and test images.

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
        TrainingImages(*train, shift if config.augment else resize, seed),
        _test_images(*test, resize),
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
        TrainingImages(*_arrays(train), crop if config.augment else centre, seed),
        _test_images(*_arrays(test), centre),
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


def _test_images(records: np.ndarray, labels: np.ndarray, decode: Decode) -> TestImages:
    order = np.random.default_rng(TEST_ORDER_SEED).permutation(len(records))
    examples = tf.data.Dataset.from_tensor_slices((records[order], labels[order]))
    no_seed = tf.zeros(2, tf.int64)
    examples = examples.map(lambda record, label: decode(record, label, no_seed), tf.data.AUTOTUNE)
    return TestImages(examples, len(records))
