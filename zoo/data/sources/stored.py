"""Storage of the image of a record: the bytes of a file, its path, or pixels."""

from typing import Protocol, TypedDict

import tensorflow as tf

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.data.crops import (
    Window,
    convert,
    cut,
    decode,
    decode_center,
    decode_window,
    is_deep_png,
    resize_center,
)
from zoo.data.image_files import TO_8_BITS


class Record(TypedDict):
    """An undecoded image."""

    image: tf.Tensor  # see `Stored`
    label: tf.Tensor  # index of its class, or probabilities
    name: tf.Tensor  # for messages


class Stored(Protocol):
    """Storage of the images of records."""

    def file(self, image: tf.Tensor) -> tf.Tensor:
        """Returns the bytes of a JPEG or PNG file."""
        ...

    def read(self, image: tf.Tensor, window: Window | None = None) -> tf.Tensor:
        """Decodes an image, or a window of it, to uint8 `(height, width, 3)`.

        Raises TensorFlow's errors.
        """
        ...

    def center(self, image: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
        """Decodes an image, and crops its center: float32 in [0, 255]. Raises the same errors."""
        ...

    def names(self, records: Record) -> tf.Tensor:
        """Returns the names of a batch of records, for errors about unreadable images."""
        ...


class File:
    """The bytes of a JPEG or PNG file."""

    def file(self, image: tf.Tensor) -> tf.Tensor:
        return image

    def read(self, image: tf.Tensor, window: Window | None = None) -> tf.Tensor:
        file = self.file(image)
        return decode(file) if window is None else decode_window(file, window)

    def center(self, image: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
        return decode_center(self.file(image), preprocessing)

    def names(self, records: Record) -> tf.Tensor:
        deep, name = is_deep_png(records["image"]), records["name"]  # False for a path
        return tf.where(deep, name + f" (16-bit PNG; {TO_8_BITS})", name)


class AnyFile(File):
    """The bytes of a file that `to_jpeg_or_png` takes."""

    def file(self, image: tf.Tensor) -> tf.Tensor:
        return convert(image)


class FilePath(File):
    """The path of a file that `to_jpeg_or_png` takes."""

    def file(self, image: tf.Tensor) -> tf.Tensor:
        return convert(tf.io.read_file(image))


class Pixels:
    """Pixels, uint8 `(height, width, 3)`."""

    def file(self, image: tf.Tensor) -> tf.Tensor:
        return tf.io.encode_png(image)

    def read(self, image: tf.Tensor, window: Window | None = None) -> tf.Tensor:
        return image if window is None else cut(image, window)

    def center(self, image: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
        return resize_center(image, preprocessing)

    def names(self, records: Record) -> tf.Tensor:
        return records["name"]
