"""Image files in one sub-folder per class."""

import os
from pathlib import Path

import numpy as np
import tensorflow as tf

from zoo.data.crops import convert
from zoo.data.findings import of_files
from zoo.data.image_folder import Files, list_folder
from zoo.data.records import IndexedSource, Record
from zoo.data.sources.base import DataSource, Split


class Source(DataSource):
    """Image files in `train/CLASS/*` and `val/CLASS/*`, or in `CLASS/*` to split."""

    def open(self, image_size: int) -> Split:
        train, test, class_names = list_folder(
            Path(self.config.dir or ""),
            self.config.test_fraction,
            self.config.split_seed,
            self.config.unreadable == "skip",
        )
        warnings = of_files(train, test, image_size)
        return Split(_records(train), _records(test), class_names, tuple(warnings))

    def encoded(self, record: Record) -> tf.Tensor:
        return convert(tf.io.read_file(record["image"]))


def _records(files: Files) -> IndexedSource:
    paths = np.asarray([os.fsencode(path) for path in files.paths])
    return IndexedSource(paths, np.asarray(files.labels), paths)
