"""Batches for `model.fit` and `model.evaluate`, made of the records of a data source."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from lambda_keras.applications import preprocess_input
from zoo.data.augment import Mix, fold_in
from zoo.data.errors import naming_errors, no_autograph
from zoo.data.sources.base import IndexedSource, Record, Records
from zoo.devices import ONLY_HOST, Host

MIXING = 100  # folded into the seeds of batches, so that they differ from those of images

# Takes a record and two random integers. Returns an image in [0, 255], of a fixed size, and
# whether it could be read.
ReadImage = Callable[[Record, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


@dataclass(frozen=True)
class Images(ABC):
    """Images to train or to test on: undecoded in `source`, decoded and augmented by `read_image`.

    `seed` is that of the order and of augmentation.
    """

    source: Records
    read_image: ReadImage
    seed: int = 0

    @property
    def count(self) -> int:
        """Number of images."""
        return self.source.count

    def sample(self, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the first images, in [0, 255], and labels, at most `limit` of them."""
        readable = no_autograph(lambda image, label, readable: readable)
        examples = self.examples(min(limit, self.count)).filter(readable).take(limit)
        with naming_errors():
            images, labels, _ = zip(*_finish(examples).as_numpy_iterator(), strict=True)
        return np.stack(images), np.asarray(labels)

    def examples(
        self,
        batch_size: int,
        first_step: int = 0,
        host: Host = ONLY_HOST,
        finish: Callable[[tf.Tensor], Any] = tf.identity,
    ) -> tf.data.Dataset:
        """Returns images in [0, 255], labels, and whether the image could be read."""

        @no_autograph
        def decode(record: Record, number: Any = 0) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            seed = tf.stack([tf.constant(self.seed, tf.int64), tf.cast(number, tf.int64)])
            image, readable = self.read_image(record, seed)
            return finish(image), record["label"], readable

        return self._records(batch_size, first_step, host).map(decode, tf.data.AUTOTUNE)

    @abstractmethod
    def _records(self, batch_size: int, first_step: int, host: Host) -> tf.data.Dataset:
        """Records; for training, endless ones with their numbers."""


@dataclass(frozen=True)
class TrainingImages(Images):
    """Training images as an endless stream that can start at any step.

    Order and augmentation are functions of the seed and the step, so that a resumed run gets the
    same images as an uninterrupted one. Another image of the batch replaces an unreadable one.
    `mix` mixes the images of a batch, within each host's part.
    """

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

        Labels are probabilities of the classes: one-hot, unless images are mixed. A batch is of all
        hosts, of which each reads its part, divided into `parts` micro-batches.
        """
        size = host.size(batch_size)

        @no_autograph
        def mixed(step: tf.Tensor, batch: tuple[tf.Tensor, tf.Tensor]):
            seed = tf.stack([tf.constant(self.seed, tf.int64), step])
            return self.mix(*batch, fold_in(seed, MIXING + host.index)) if self.mix else batch

        batches = (
            self.examples(batch_size, first_step, host, preprocess_input)
            .batch(size, drop_remainder=True)
            .map(_replace_unreadable)
            .map(_one_hot(classes))
            .enumerate(first_step)
            .map(mixed)
        )
        return _finish(batches if parts == 1 else batches.rebatch(size // parts))

    def _records(self, batch_size: int, first_step: int, host: Host) -> tf.data.Dataset:
        return self.source.training(batch_size, first_step, host, self.seed)


class EvalImages(Images):
    """Test images in a fixed order; `read_image` gets zeros for random integers."""

    def steps(self, batch_size: int) -> int:
        """Returns the batches of a pass."""
        return -(-self.count // batch_size)

    def batches(self, batch_size: int, classes: int, host: Host = ONLY_HOST) -> tf.data.Dataset:
        """Creates the dataset for `model.evaluate`: preprocessed batches, one-hot labels, weights.

        All batches are full, and every host has the same number of them. Padding and unreadable
        images have weight 0.
        """
        examples: Any = self.examples(batch_size, host=host, finish=preprocess_input)
        nothing = [tf.zeros(spec.shape, spec.dtype) for spec in examples.element_spec]
        padding = tf.data.Dataset.from_tensors(tuple(nothing)).repeat()
        return _finish(
            examples.concatenate(padding)
            .batch(host.size(batch_size), drop_remainder=True)
            .take(self.steps(batch_size))
            .map(_one_hot(classes))
        )

    def _records(self, batch_size: int, first_step: int, host: Host) -> tf.data.Dataset:
        return self.source.testing(batch_size, host)


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


def _finish(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    # Every host reads its own part already.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    # Images are decoded in parallel; threads within an operation would compete with them.
    options.threading.max_intra_op_parallelism = 1
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)
