"""The interface of data sources."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from zoo.config import DataConfig
from zoo.data.augment import fold_in, random_window
from zoo.data.crops import attempt, decode, decode_window
from zoo.data.records import IndexedSource, Record, Records

Decoder = Callable[[tf.Tensor], tf.Tensor]


class Split(NamedTuple):
    """Training and test records of a data source, class names, and warnings of a line each."""

    train: Records
    test: Records
    class_names: tuple[str, ...]
    warnings: tuple[str, ...] = ()


class DataSource(ABC):
    """Base class of data sources, which find, decode and augment images."""

    crop: ClassVar[float] = 0.875  # fraction of the shorter side in test images, as for ImageNet

    def __init__(self, config: DataConfig) -> None:
        self.config = config

    @abstractmethod
    def open(self, image_size: int) -> Split:
        """Finds and checks the images, for a model of images of this height and width.

        Raises:
            ValueError: If the images are missing, damaged or not what the settings say.
        """

    def encoded(self, record: Record) -> tf.Tensor:
        """Returns the bytes of an image file."""
        return record["image"]

    def read(self, record: Record, decoder: Decoder = decode) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns a decoded image, and whether the file was readable."""
        skip = self.config.unreadable == "skip"
        return attempt(lambda: decoder(self.encoded(record)), record["name"], skip)

    def augmented(self, record: Record, seed: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns an image cropped and flipped at random, and whether the file was readable."""
        window = partial(random_window, seed=seed)
        crop, readable = self.read(record, partial(decode_window, window=window))
        image = tf.image.resize(crop, (size, size))
        # The same seed would make flips depend on crops.
        return tf.image.stateless_random_flip_left_right(image, fold_in(seed, 1)), readable


Arrays = tuple[np.ndarray, np.ndarray]  # images, uint8 `(count, height, width, 3)`, and labels


class ArraySource(DataSource):
    """Base class of sources of images in memory, which have no border to crop."""

    crop = 1.0
    class_names: ClassVar[tuple[str, ...]]

    @abstractmethod
    def arrays(self) -> tuple[Arrays, Arrays]:
        """Returns training and test images with labels."""

    def open(self, image_size: int) -> Split:
        train, test = (
            IndexedSource(images, labels, np.arange(len(images)).astype(str))
            for images, labels in self.arrays()
        )
        return Split(train, test, self.class_names)

    def encoded(self, record: Record) -> tf.Tensor:
        return tf.io.encode_png(record["image"])

    def read(self, record: Record, decoder: Decoder = decode) -> tuple[tf.Tensor, tf.Tensor]:
        return record["image"], tf.constant(True)
