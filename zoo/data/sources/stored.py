"""How a record holds its image: the bytes of a file, its path, or pixels."""

from collections.abc import Callable
from typing import Protocol, TypedDict

import tensorflow as tf

from zoo.data.crops import convert, decode, is_deep_png
from zoo.data.image_files import TO_8_BITS

Decoder = Callable[[tf.Tensor], tf.Tensor]


class Record(TypedDict):
    """An undecoded image."""

    image: tf.Tensor  # see `Stored`
    label: tf.Tensor  # index of its class, or probabilities
    name: tf.Tensor  # for messages


class Stored(Protocol):
    """How records hold their images."""

    def file(self, image: tf.Tensor) -> tf.Tensor:
        """Returns the bytes of a JPEG or PNG file."""
        ...

    def read(self, image: tf.Tensor, decoder: Decoder = decode) -> tf.Tensor:
        """Returns the decoded image, uint8 `(height, width, 3)`; raises TensorFlow's errors."""
        ...

    def names(self, records: Record) -> tf.Tensor:
        """Returns names of images that cannot be read, of a batch of records."""
        ...


class File:
    """The bytes of a JPEG or PNG file."""

    def file(self, image: tf.Tensor) -> tf.Tensor:
        return image

    def read(self, image: tf.Tensor, decoder: Decoder = decode) -> tf.Tensor:
        return decoder(self.file(image))

    def names(self, records: Record) -> tf.Tensor:
        deep, name = is_deep_png(records["image"]), records["name"]  # a path is none
        return tf.where(deep, name + f" (16-bit PNG; {TO_8_BITS})", name)


class AnyFile(File):
    """The bytes of a file in any format that Pillow reads."""

    def file(self, image: tf.Tensor) -> tf.Tensor:
        return convert(image)


class FilePath(File):
    """The path of a file in any format that Pillow reads."""

    def file(self, image: tf.Tensor) -> tf.Tensor:
        return convert(tf.io.read_file(image))


class Pixels:
    """Pixels, uint8 `(height, width, 3)`."""

    def file(self, image: tf.Tensor) -> tf.Tensor:
        return tf.io.encode_png(image)

    def read(self, image: tf.Tensor, decoder: Decoder = decode) -> tf.Tensor:
        return image

    def names(self, records: Record) -> tf.Tensor:
        return records["name"]
