"""The interface of data sources, and the order and distribution of their records to hosts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import tensorflow as tf

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.config import DataConfig
from zoo.data.augment import fold_in, random_shift, random_window, to_uint8
from zoo.data.crops import Window, resize_center, resize_window
from zoo.data.errors import no_autograph
from zoo.data.record_files import GROUP, StreamSource
from zoo.data.sources.stored import File, Record, Stored
from zoo.devices import Host
from zoo.run_folder import other_data, read_index

Noted = Mapping[str, Any]  # counts and digests of a run's data, by name, as in JSON
OtherData = Callable[[str | None, str], ValueError]  # takes a folder and what differs there


class Read(Protocol):
    """Decodes the image of a record, or a window of it: uint8 `(height, width, 3)`."""

    def __call__(self, *, window: Window | None = ...) -> tf.Tensor: ...


INDEX_SHUFFLE = 498247692  # tf.random.experimental.index_shuffle puts it before every seed
TEST_ORDER_SEED = 0  # shuffles test images, so that the first few are of all classes


@dataclass(frozen=True)
class IndexedSource:
    """Records in memory: pixels or paths, indices of the classes, and names for messages.

    All hosts together read the batches of a single host.
    """

    images: np.ndarray
    labels: np.ndarray
    names: np.ndarray
    files: ClassVar[Sequence[str]] = ()

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.images)

    def training(
        self, batch_size: int, first_step: int, host: Host, seed: int
    ) -> "tf.data.Dataset[Record]":
        """Returns endless records, in groups of `GROUP`, in another order in every epoch.

        They are functions of the seed and the step. An epoch has only full batches, and every host
        reads its part of each.
        """
        epoch_size = self.count // batch_size * batch_size
        records = self._records(np.arange(self.count))

        @no_autograph
        def look_up(positions: tf.Tensor) -> Record:
            numbers = host.number(positions, batch_size)
            epochs = numbers // epoch_size
            first, run_seed = (tf.zeros_like(epochs) + part for part in (INDEX_SHUFFLE, seed))
            # As tf.random.experimental.index_shuffle, which takes one seed at a time.
            indices = tf.raw_ops.RandomIndexShuffle(
                index=numbers % epoch_size,
                seed=tf.stack([first, run_seed, epochs], 1),
                max_index=tf.constant(self.count - 1, tf.int64),
            )
            return tf.nest.map_structure(lambda values: tf.gather(values, indices), records)

        positions = tf.data.Dataset.range(first_step * host.size(batch_size), tf.int64.max)
        return positions.batch(GROUP).map(look_up, tf.data.AUTOTUNE)

    def testing(self, batch_size: int, host: Host) -> "tf.data.Dataset[Record]":
        """Returns this host's part of the batches, in groups; together, each record comes once."""
        order = np.random.default_rng(TEST_ORDER_SEED).permutation(self.count)
        on_host = np.arange(self.count) % batch_size // host.size(batch_size) == host.index
        records: Any = self._records(order[on_host])  # TensorFlow's stubs do not know typed dicts
        return tf.data.Dataset.from_tensor_slices(records).batch(GROUP)

    def in_order(self) -> "tf.data.Dataset[Record]":
        """Returns every record once, one by one."""
        records: Any = self._records(np.arange(self.count))
        return tf.data.Dataset.from_tensor_slices(records)

    def with_pixels(
        self, images: np.ndarray, labels: np.ndarray, names: np.ndarray
    ) -> "IndexedSource":
        """Returns the same records with decoded images; arrays are in the order of `in_order`."""
        return IndexedSource(images, labels, names)

    def _records(self, indices: np.ndarray) -> Record:
        return Record(
            image=tf.constant(self.images[indices]),
            label=tf.constant(self.labels[indices], tf.int64),
            name=tf.constant(self.names[indices]),
        )


Records = IndexedSource | StreamSource


@dataclass(frozen=True)
class Split:
    """Training and test records of a data source, class names, and warnings of a line each.

    `index` holds counts and digests, for `DataSource.index` of a resumed run.
    """

    train: Records
    test: Records
    class_names: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    index: Noted | None = None


@dataclass
class DataSource(ABC):
    """Base class of data sources, which find, decode and augment images.

    `index` is the JSON file of a resumed run's counts, if there is one. For the test images of a
    run, `trained` is the contents of that run's file.
    """

    config: DataConfig
    index: Path | None = None
    trained: Noted | None = None
    stored: ClassVar[Stored] = File()
    crop: ClassVar[float] = 0.875  # fraction of the shorter side in test images, as for ImageNet

    @abstractmethod
    def open(self, image_size: int) -> Split:
        """Finds and checks the images, for a model of images of this height and width."""

    def check_same(self, counted: Noted) -> Noted:
        """Checks that a resumed run has the data that it began with, wherever they are now."""
        if self.index is not None and self.index.is_file():
            self.compare(counted, read_index(self.index, "output_dir"), other_data)
        return counted

    def compare(self, counted: Noted, before: Noted, error: OtherData) -> None:
        """Raises `error` about the first of `counted` that differs from `before`, if one does."""
        for name, value in counted.items():
            if value != before.get(name):
                counts = f" ({value:,}, not {before.get(name)})" if type(value) is int else ""
                raise error(self.config.dir, f"{name}{counts}")

    def center(self, size: int) -> Preprocessing:
        """Returns the default evaluation preprocessing for images of a size."""
        return Preprocessing(size, self.crop, "bilinear", resize=self.config.resize)

    def augmented(self, read: Read, seed: tf.Tensor, size: int) -> tf.Tensor:
        """Returns an image cropped or shifted, and flipped, at random: uint8 `(size, size, 3)`."""
        window = partial(random_window, seed=seed)
        if self.config.shift is not None:
            whole = to_uint8(resize_center(read(), self.center(size)))
            image = random_shift(whole, seed, size, self.config.shift)
        elif self.config.resize == "crop":
            image = to_uint8(tf.image.resize(read(window=window), (size, size)))
        else:
            image = to_uint8(resize_window(read(), self.config.resize, window, size))
        # The same seed would make flips depend on crops.
        return tf.image.stateless_random_flip_left_right(image, fold_in(seed, 1))
