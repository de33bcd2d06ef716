"""How a record holds its image: the bytes of a file, its path, or pixels."""

from collections.abc import Callable
from typing import Protocol, TypedDict

import tensorflow as tf

from zoo.data.crops import attempt, convert, decode, is_deep_png
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

    def read(
        self, record: Record, skip: bool, decoder: Decoder = decode
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the decoded image, uint8 `(height, width, 3)`, and whether it was readable.

        `skip` allows unreadable files, which are errors else.
        """
        ...


class File:
    """The bytes of a JPEG or PNG file."""

    def file(self, image: tf.Tensor) -> tf.Tensor:
        return image

    def read(
        self, record: Record, skip: bool, decoder: Decoder = decode
    ) -> tuple[tf.Tensor, tf.Tensor]:
        image, name = record["image"], record["name"]
        # A path is none.
        name = tf.where(is_deep_png(image), name + f" (16-bit PNG; {TO_8_BITS})", name)
        return attempt(lambda: decoder(self.file(image)), name, skip)


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

    def read(
        self, record: Record, skip: bool, decoder: Decoder = decode
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return record["image"], tf.constant(True)
