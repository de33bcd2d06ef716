"""Batches for `model.fit` and `model.evaluate`, made of the records of a data source."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from lambda_keras.applications import preprocess_input
from zoo.data.augment import Mix, fold_in
from zoo.data.errors import naming_errors
from zoo.data.records import IndexedSource, Record, Records, no_autograph
from zoo.devices import ONLY_HOST, Host

MIXING = 100  # folded into the seeds of batches, so that they differ from those of images

# Takes a record and two random integers. Returns an image in [0, 255], of a fixed size, and
# whether it could be read.
ReadImage = Callable[[Record, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


@dataclass(frozen=True)
class Images:
    """Images to train or to test on.

    Attributes:
        source: Undecoded images and their labels.
        read_image: Decodes an image, and augments it for training.
    """

    source: Records
    read_image: ReadImage

    @property
    def count(self) -> int:
        """Number of images."""
        return self.source.count


@dataclass(frozen=True)
class TrainingImages(Images):
    """Training images as an endless stream that can start at any step.

    Order and augmentation are functions of the seed and the step, so that a resumed run gets the
    same images as an uninterrupted one. Another image of the batch replaces an unreadable one.

    Attributes:
        seed: Seed of the order and of augmentation.
        mix: Mixes the images of a batch, within each host's part; None: without.
    """

    seed: int
    mix: Mix | None = None

    @property
    def labels(self) -> np.ndarray | None:
        """Indices of the classes of all images; None for streams of records."""
        return self.source.labels if isinstance(self.source, IndexedSource) else None

    def steps_per_epoch(self, batch_size: int) -> int:
        """Returns the full batches of one pass, which leaves out other images in every pass."""
        return self.count // batch_size

    def batches(
        self,
        batch_size: int,
        classes: int,
        first_step: int = 0,
        host: Host = ONLY_HOST,
        parts: int = 1,
    ) -> tf.data.Dataset:
        """Creates the dataset for `model.fit`: endless preprocessed batches with labels.

        Labels are probabilities of the classes: one-hot, unless images are mixed.

        Args:
            batch_size: Images per step, over all hosts.
            classes: Number of classes.
            first_step: Number of batches to skip. Defaults to 0.
            host: Host whose part of each batch is read. Defaults to the only one.
            parts: Micro-batches into which every batch is divided. Defaults to 1.

        Raises:
            ValueError: If hosts or micro-batches do not divide the batch.
        """
        size = host.size(batch_size)
        if size % parts:
            raise ValueError(f"expected a multiple of {parts} images on a host. Received: {size}")
        batches = (
            self.examples(batch_size, first_step, host, preprocess_input)
            .batch(size, drop_remainder=True)
            .map(_replace_unreadable)
            .map(_one_hot(classes))
        )
        if self.mix is not None:
            batches = batches.enumerate(first_step).map(_mixed(self.mix, self.seed, host))
        return _finish(batches if parts == 1 else batches.rebatch(size // parts))

    def sample(self, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the first augmented images, in [0, 255], and labels, at most `limit` of them."""
        return _sample(self.examples(min(limit, self.count)), limit)

    def examples(
        self,
        batch_size: int,
        first_step: int = 0,
        host: Host = ONLY_HOST,
        finish: Callable[[tf.Tensor], Any] = tf.identity,
    ) -> tf.data.Dataset:
        """Returns endless images in [0, 255], labels, and whether the image could be read."""

        @no_autograph
        def decode(record: Record, number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            seed = tf.stack([tf.constant(self.seed, tf.int64), number])
            image, readable = self.read_image(record, seed)
            return finish(image), record["label"], readable

        records = self.source.training(batch_size, first_step, host, self.seed)
        return records.map(decode, tf.data.AUTOTUNE)


class EvalImages(Images):
    """Test images in a fixed order; `read_image` gets zeros for random integers."""

    def steps(self, batch_size: int) -> int:
        """Returns the batches of a pass."""
        return -(-self.count // batch_size)

    def batches(self, batch_size: int, classes: int, host: Host = ONLY_HOST) -> tf.data.Dataset:
        """Creates the dataset for `model.evaluate`: preprocessed batches, one-hot labels, weights.

        All batches are full, and every host has the same number of them. Padding and unreadable
        images have weight 0. Arguments are those of `TrainingImages.batches`.
        """
        examples = self._examples(batch_size, host, preprocess_input)
        image, label, readable = (
            tf.zeros(spec.shape, spec.dtype) for spec in tf.nest.flatten(examples.element_spec)
        )
        nothing = preprocess_input(image), label, readable
        return _finish(
            examples.concatenate(tf.data.Dataset.from_tensors(nothing).repeat())
            .batch(host.size(batch_size), drop_remainder=True)
            .take(self.steps(batch_size))
            .map(_one_hot(classes))
        )

    def sample(self, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the first images, in [0, 255], and labels, at most `limit` of them."""
        return _sample(self._examples(1, ONLY_HOST), limit)

    def _examples(
        self, batch_size: int, host: Host, finish: Callable[[tf.Tensor], Any] = tf.identity
    ) -> tf.data.Dataset:
        """Images, labels, and whether the image could be read."""

        @no_autograph
        def decode(record: Record) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            image, readable = self.read_image(record, tf.zeros(2, tf.int64))
            return finish(image), record["label"], readable

        return self.source.testing(batch_size, host).map(decode, tf.data.AUTOTUNE)


@no_autograph
def _replace_unreadable(
    images: tf.Tensor, labels: tf.Tensor, readable: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    def replace() -> tuple[tf.Tensor, tf.Tensor]:
        found = tf.where(readable)[:, 0]
        message = "data: not one image of a batch could be read"
        with tf.control_dependencies([tf.debugging.Assert(tf.size(found) > 0, [message])]):
            first = tf.gather(found, 0)
        indices = tf.where(readable, tf.range(tf.size(readable, tf.int64)), first)
        return tf.gather(images, indices), tf.gather(labels, indices)

    return tf.cond(tf.reduce_all(readable), lambda: (images, labels), replace)


def _one_hot(classes: int) -> Callable[..., tuple[tf.Tensor, ...]]:
    @no_autograph
    def one_hot(images: tf.Tensor, labels: tf.Tensor, *readable: tf.Tensor):
        return images, tf.one_hot(labels, classes), *(tf.cast(r, tf.float32) for r in readable)

    return one_hot


def _mixed(mix: Mix, seed: int, host: Host) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    @no_autograph
    def mixed(step: tf.Tensor, batch: tuple[tf.Tensor, tf.Tensor]):
        own = fold_in(tf.stack([tf.constant(seed, tf.int64), step]), MIXING + host.index)
        return mix(*batch, own)

    return mixed


def _sample(examples: tf.data.Dataset, limit: int) -> tuple[np.ndarray, np.ndarray]:
    readable = no_autograph(lambda image, label, readable: readable)
    examples = _finish(examples.filter(readable).take(limit))
    with naming_errors():
        images, labels, _ = zip(*examples.as_numpy_iterator(), strict=True)
    return np.stack(images), np.asarray(labels)


def _finish(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    # Every host reads its own part already.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    # Images are decoded in parallel; threads within an operation would compete with them.
    options.threading.max_intra_op_parallelism = 1
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)
