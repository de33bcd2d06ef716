"""Loading of training and test images, and their batches for `model.fit` and `evaluate`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from lambda_keras.applications.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from lambda_keras.layers.arguments import is_positive_integer
from zoo.backend import memory_bytes
from zoo.config import DataConfig
from zoo.data.augment import Mix, color_jitter, either, fold_in, rand_augment, random_erasing
from zoo.data.crops import attempt
from zoo.data.errors import naming_errors, no_autograph
from zoo.data.in_memory import decoded
from zoo.data.record_files import GROUP
from zoo.data.sources.base import DataSource, IndexedSource, Noted, Records
from zoo.data.sources.kinds import SOURCES
from zoo.data.sources.stored import Pixels, Record, Stored
from zoo.devices import ONLY_HOST, Host
from zoo.errors import printable, some

MEMORY_SHARE = 1 / 16  # of memory for decoded training images, and as much for test images
FEW = 10  # images of a class, below which a network hardly learns it
UNEQUAL = 5  # ratio of the largest class to the smallest, from which class weights are advised
MIXING = 100  # folded into the seeds of batches, so that they differ from the seeds of images

# Takes a batch of records, and two random integers for each. Returns images in [0, 255], of a fixed
# size, and whether they could be read.
ReadImages = Callable[[Record, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


@dataclass(frozen=True)
class Images:
    """Images to train or to test on: undecoded in `source`, decoded and augmented by `read_images`.

    `seed` is for the order and for augmentation.
    """

    source: Records
    read_images: ReadImages
    seed: int = 0

    @property
    def count(self) -> int:
        """Number of images."""
        return self.source.count

    @property
    def files(self) -> list[str]:
        """TFRecord files that are read."""
        return list(self.source.files)

    def sample(self, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the first readable images, in [0, 255], and their labels, at most `limit`."""
        if not is_positive_integer(limit):
            raise ValueError(f"limit: expected a positive integer. Received: {limit!r}")
        readable = no_autograph(lambda image, label, readable: readable)
        examples = self.examples(min(limit, self.count)).unbatch().filter(readable).take(limit)
        with naming_errors(self.files):
            images, labels, _ = zip(*_finish(examples).as_numpy_iterator(), strict=True)
        return np.stack(images).astype("float32"), np.asarray(labels)

    def examples(
        self, batch_size: int, first_step: int = 0, host: Host = ONLY_HOST
    ) -> tf.data.Dataset:
        """Returns images in [0, 255], labels, and whether each could be read, in groups."""
        first = first_step * host.size(batch_size)

        @no_autograph
        def decode(group: Any, records: Record) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            places = tf.range(tf.shape(records["label"], tf.int64)[0])
            numbers = self._numbers(first + group * GROUP + places, batch_size, host)
            seeds = tf.stack([tf.zeros_like(numbers) + self.seed, numbers], 1)
            images, readable = self.read_images(records, seeds)
            return images, records["label"], readable

        records = self._records(batch_size, first_step, host)
        return records.enumerate().map(decode, tf.data.AUTOTUNE)

    def _records(self, batch_size: int, first_step: int, host: Host) -> tf.data.Dataset:
        """Returns records in groups, endlessly for training."""
        return self.source.testing(batch_size, host)

    def _numbers(self, positions: Any, batch_size: int, host: Host) -> tf.Tensor:
        """Returns an integer for each image, from which its random numbers are derived."""
        return tf.zeros_like(positions)


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
        """Returns the number of full batches in an epoch; the images left out vary by epoch."""
        return self.count // batch_size

    def step_size(self, batch_size: int) -> int:
        """Returns the number of images in a step; `WithPseudoLabels` adds pseudo-labeled ones."""
        return batch_size

    def batches(
        self,
        batch_size: int,
        classes: int,
        first_step: int = 0,
        host: Host = ONLY_HOST,
        parts: int = 1,
        normalize: bool = True,
    ) -> tf.data.Dataset:
        """Creates the dataset for `model.fit`: endless batches of images with labels.

        Images are normalized as by `preprocess_input`; without `normalize` they are in [0, 255],
        uint8 unless mixing or another augmentation makes them float32.

        `fit` needs `steps_per_epoch=train.steps_per_epoch(batch_size)`, or its epochs never end.
        Labels are class probabilities, one-hot unless images are mixed or pseudo-labeled.
        Pseudo-labeled images come in addition to `batch_size`. Each host reads its part of a batch,
        divided into `parts` micro-batches.
        """
        size = host.size(self.step_size(batch_size))

        @no_autograph
        def mixed(step: tf.Tensor, batch: tuple[tf.Tensor, tf.Tensor]):
            seed = tf.stack([tf.constant(self.seed, tf.int64), step])
            return self.mix(*batch, fold_in(seed, MIXING + host.index)) if self.mix else batch

        batches = self.unmixed(batch_size, classes, first_step, host)
        batches = batches.enumerate(first_step).map(mixed)
        if normalize:
            batches = batches.map(_normalized)
        return _finish(batches if parts == 1 else batches.rebatch(size // parts))

    def unmixed(
        self, batch_size: int, classes: int, first_step: int, host: Host
    ) -> tf.data.Dataset:
        """Creates the batches of a host before they are mixed."""
        return (
            self.examples(batch_size, first_step, host)
            .rebatch(host.size(batch_size), drop_remainder=True)
            .map(_replace_unreadable)
            .map(_one_hot(classes))
        )

    def _records(self, batch_size: int, first_step: int, host: Host) -> tf.data.Dataset:
        return self.source.training(batch_size, first_step, host, self.seed)

    def _numbers(self, positions: Any, batch_size: int, host: Host) -> tf.Tensor:
        return host.number(positions, batch_size)


class EvalImages(Images):
    """Test images in a fixed order; `read_images` gets the same random integers for each."""

    def steps(self, batch_size: int) -> int:
        """Returns the number of batches in a pass."""
        return -(-self.count // batch_size)

    def batches(
        self, batch_size: int, classes: int, host: Host = ONLY_HOST, normalize: bool = True
    ) -> tf.data.Dataset:
        """Creates the dataset for `model.evaluate`: batches of images, one-hot labels, weights.

        All batches are full, and every host has the same number of them. Padding and unreadable
        images have weight 0. Without `normalize` images are in [0, 255].
        """
        examples: Any = self.examples(batch_size, host=host)
        nothing = [tf.zeros([1, *spec.shape[1:]], spec.dtype) for spec in examples.element_spec]
        padding = tf.data.Dataset.from_tensors(tuple(nothing)).repeat()
        steps = self.steps(batch_size)
        batches = (
            examples.concatenate(padding)
            .rebatch(host.size(batch_size), drop_remainder=True)
            .take(steps)
            .apply(tf.data.experimental.assert_cardinality(steps))  # Keras reads it
            .map(_one_hot(classes))
        )
        return _finish(batches.map(_normalized) if normalize else batches)


@dataclass(frozen=True)
class ImageData:
    """Training images, held-out test images, class names, and dataset warnings of a line each.

    `index` is for `load_data` of a resumed run; None if the source needs none.
    """

    train: TrainingImages
    test: EvalImages
    class_names: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    index: Noted | None = None


def load_data(
    config: DataConfig,
    image_size: int,
    seed: int = 0,
    preprocessing: Preprocessing | None = None,
    index: Path | None = None,
    trained: Noted | None = None,
) -> ImageData:
    """Finds and checks the images, for a model of images of this height and width in pixels.

    `preprocessing` is for test images that are image files; None: `held_out_preprocessing`.
    `index` is a file with the `ImageData.index` of the same images; None, or missing: records are
    counted. `trained` is for `load_test_images`.
    """
    source = SOURCES[config.source](config, index, trained)
    split = source.open(image_size)
    if config.batch_size > split.train.count:
        raise ValueError(
            f"data.batch_size: expected at most {split.train.count}, the number of training "
            f"images. Received: {config.batch_size}"
        )
    # Images of sources without a border are never cropped, whatever the network was trained on.
    if preprocessing is None or source.crop == 1:
        preprocessing = held_out_preprocessing(config, image_size)
    train_records, read_train = _once(split.train, config, source, preprocessing, training=True)
    test_records, read_test = _once(split.test, config, source, preprocessing, training=False)
    train = TrainingImages(train_records, read_train, seed, either(config.mixup, config.cutmix))
    warnings = split.warnings
    if train.labels is not None:
        weighted = config.class_weights is not None
        warnings = (*warnings, *class_warnings(train.labels, split.class_names, weighted))
    test = EvalImages(test_records, read_test)
    return ImageData(train, test, split.class_names, warnings, split.index)


def _once(
    records: Records,
    config: DataConfig,
    source: DataSource,
    preprocessing: Preprocessing,
    training: bool,
) -> tuple[Records, ReadImages]:
    """Returns records and their preprocessing, with decoded images where they fit into memory."""
    share = MEMORY_SHARE * memory_bytes()
    limit = share if config.cache_gb is None else 1e9 * config.cache_gb
    windows = training and config.augment and config.shift is None and config.resize == "crop"
    pixels = decoded(records, source.stored, limit, windows)
    stored = source.stored if pixels is None else Pixels()
    read_train, read_test = readers(config, source, preprocessing, stored)
    return pixels or records, read_train if training else read_test


def held_out_preprocessing(config: DataConfig, image_size: int) -> Preprocessing:
    """Returns the default evaluation preprocessing for images of a size."""
    return SOURCES[config.source](config).center(image_size)


def load_test_images(
    config: DataConfig,
    image_size: int,
    preprocessing: Preprocessing | None = None,
    trained: Noted | None = None,
) -> ImageData:
    """Loads test images as `load_data` does, even from data without training images.

    `trained` is the index of a run: a folder that is divided here must give the run's parts.
    """
    # Datasets like imagenet_v2 have no training images; the test images stand in for them. They are
    # read once, so a cache would not help.
    changes = {"train_split": config.test_split, "batch_size": 1, "augment": False, "cache_gb": 0}
    return load_data(
        config.model_copy(update=changes), image_size, preprocessing=preprocessing, trained=trained
    )


def held_out_files(
    config: DataConfig, image_size: int, limit: int, trained: Noted | None = None
) -> tuple[list[bytes], np.ndarray]:
    """Returns the first readable test images, at most `limit`, and the indices of their classes.

    Images are the contents of image files (PNG for images in memory).
    """
    test = load_test_images(config, image_size, trained=trained).test
    stored = SOURCES[config.source].stored

    @no_autograph
    def undecoded(records: Record) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        _, readable = test.read_images(records, tf.zeros([1, 2], tf.int64))
        return stored.file(records["image"][0]), records["label"][0], readable[0]

    records = test.source.testing(1, ONLY_HOST).rebatch(1).map(undecoded)
    readable = no_autograph(lambda file, label, readable: readable)
    records = records.filter(readable).take(limit)
    with naming_errors(test.files):
        files, labels, _ = zip(*records.as_numpy_iterator(), strict=True)
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


def readers(
    config: DataConfig,
    source: DataSource,
    preprocessing: Preprocessing,
    stored: Stored | None = None,
) -> tuple[ReadImages, ReadImages]:
    """Returns the preprocessing of training images and of test images.

    `stored` is the storage of the records' images; None: the source's.
    """
    size, storage = preprocessing.image_size, stored or source.stored

    def test(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return storage.center(image, preprocessing)

    # Optional augmentations, each with the constant that is folded into its seed.
    changes: dict[int, Callable[..., tf.Tensor]] = {}
    if config.color_jitter is not None:
        changes[3] = partial(color_jitter, strength=config.color_jitter)
    if config.randaugment_magnitude is not None:
        changes[2] = rand_augment(config.randaugment_layers, config.randaugment_magnitude, size)
    if config.random_erasing is not None:
        changes[4] = partial(random_erasing, probability=config.random_erasing)

    def train(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        image = source.augmented(partial(storage.read, image), seed, size)
        for number, change in changes.items():
            image = change(image, fold_in(seed, number))
        return image

    def attempts(read: Callable[..., tf.Tensor]) -> ReadImages:
        skip = config.unreadable == "skip"
        once: Any = tf.function(read, autograph=False)  # traced once for all attempts
        return lambda records, seeds: attempt(
            once, (records["image"], seeds), storage.names(records), skip
        )

    return attempts(train if config.augment else test), attempts(test)


@no_autograph
def _replace_unreadable(
    images: tf.Tensor, labels: tf.Tensor, readable: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    def replace() -> tuple[tf.Tensor, tf.Tensor]:
        places = tf.where(readable)[:, 0]
        message = "data: not one image of a batch could be read"
        with tf.control_dependencies([tf.debugging.Assert(tf.size(places) > 0, [message])]):
            first = tf.gather(places, 0)
        indices = tf.where(readable, tf.range(tf.size(readable, tf.int64)), first)
        return tf.gather(images, indices), tf.gather(labels, indices)

    return tf.cond(tf.reduce_all(readable), lambda: (images, labels), replace)


@no_autograph
def normalize(images: Any) -> Any:
    """Normalizes as `preprocess_input`, by rows: broadcasting 3 values takes four times as long."""
    height, width = images.shape[1:3]
    rows = tf.reshape(tf.cast(images, tf.float32), [-1, height, width * 3])
    mean, deviation = (
        255 * np.tile(np.array(values, "float32"), width)
        for values in (IMAGENET_MEAN, IMAGENET_STD)
    )
    return tf.reshape((rows - mean) * (1 / deviation), tf.shape(images))


@no_autograph
def _normalized(images: Any, *others: tf.Tensor) -> tuple[tf.Tensor, ...]:
    return normalize(images), *others


def _one_hot(classes: int) -> Callable[..., tuple[tf.Tensor, ...]]:
    @no_autograph
    def one_hot(images: tf.Tensor, labels: tf.Tensor, *readable: tf.Tensor):
        if labels.shape.rank == 1:  # others are multi-hot or soft
            labels = tf.one_hot(labels, classes)
        return images, labels, *(tf.cast(r, tf.float32) for r in readable)

    return one_hot


def _finish(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    # Every host reads its own part already.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    # Images are decoded in parallel; threads within an operation would compete with them.
    options.threading.max_intra_op_parallelism = 1
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)
