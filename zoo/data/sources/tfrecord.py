"""Shards of `tf.train.Example`, as the Cloud TPU tutorials write ImageNet."""

import glob
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from pydantic import BaseModel

from zoo.data.errors import no_autograph, reason
from zoo.data.record_files import RecordFile, StreamSource, file_sizes
from zoo.data.record_layout import why_compressed
from zoo.data.sources.base import DataSource, Split
from zoo.data.sources.stored import Record
from zoo.errors import needs_extra, refusal, require
from zoo.run_folder import INDEX, other_data, read_json

IMAGE, LABEL = "image/encoded", "image/class/label"
TEXT, NAME = "image/class/text", "image/filename"
NEEDED = {
    IMAGE: tf.io.FixedLenFeature([], tf.string),
    LABEL: tf.io.FixedLenFeature([], tf.int64),
}
TRAIN, TEST = "train-*", "validation-*"


class Contents(BaseModel):
    """Paths of record files, bytes and records of each, and class names by label ("": unnamed)."""

    files: list[str]
    sizes: list[int]
    counts: list[int]
    texts: dict[int, str] = {}


class Index(BaseModel):
    """Training and test files of a run."""

    train: Contents
    test: Contents


class TFRecords(DataSource):
    """Shards `train-*` and `validation-*` of `tf.train.Example`.

    All are read once to count records, unless an index has files of the same names and sizes.
    """

    def open(self, image_size: int) -> Split:
        folder, classes = self.config.dir or "", self.config.classes or 0
        known = (None, None)
        if self.index is not None and self.index.is_file():
            index = read_json(Index, self.index, f"output_dir: expected an intact {INDEX}")
            known = index.train, index.test
        train, test = map(partial(_contents, folder), (TRAIN, TEST), known)
        texts = test.texts | train.texts
        first = int(0 not in texts and classes in texts)
        wrong = sorted(label for label in texts if not first <= label < first + classes)
        require(
            not wrong,
            f"data.classes: expected labels from 0 to {classes - 1} or from 1 to {classes} in "
            f"{folder}",
            f"data.classes={classes} and labels such as {', '.join(map(str, wrong[:5]))}",
        )
        names = tuple(texts.get(i + first) or str(i) for i in range(classes))
        train_records, test_records = (
            StreamSource(
                [*map(RecordFile, part.files, [0] * len(part.files), part.counts)],
                partial(_parse, first),
                self.config.shuffle_buffer,
            )
            for part in (train, test)
        )
        index = Index(train=train, test=test)
        return Split(train_records, test_records, names, index=index.model_dump(mode="json"))


def _contents(folder: str, pattern: str, known: Contents | None) -> Contents:
    files = sorted(tf.io.gfile.glob(f"{glob.escape(folder.rstrip('/'))}/{pattern}"))
    expected = f"data.dir: expected a folder with files {TRAIN} and {TEST}"
    require(files, expected, f"{folder!r}, which has no {pattern}")
    sizes = file_sizes(files)
    if known is not None:
        before, now = ([*map(os.path.basename, paths)] for paths in (known.files, files))
        if (before, known.sizes) == (now, sizes):
            return known.model_copy(update={"files": files})
        raise other_data(folder, f"names or sizes of {pattern}")
    with needs_extra("train"):
        from rich.progress import track
    with ThreadPoolExecutor(16) as pool:
        scanned = pool.map(_scan, files)
        scans = list(track(scanned, f"Counting {pattern[:-2]} images", len(files), transient=True))
    texts: dict[int, str] = {}
    for _, file_texts in scans:
        texts = file_texts | texts
    return Contents(files=files, sizes=sizes, counts=[count for count, _ in scans], texts=texts)


def _scan(file: str) -> tuple[int, dict[int, str]]:
    """Counts records and collects class names by label; checks the checksum of every record."""
    keys = NEEDED | {TEXT: tf.io.FixedLenFeature([], tf.string, "")}
    count, texts = 0, {}
    try:
        for records in tf.data.TFRecordDataset(file).batch(256):
            features: Any = tf.io.parse_example(records, keys)
            labels, where = np.unique(features[LABEL], return_index=True)
            for label, text in zip(labels.tolist(), features[TEXT].numpy()[where], strict=True):
                texts.setdefault(label, text.decode(errors="replace"))
            count += len(records)
    except tf.errors.DataLossError as error:
        why = f"{file} is damaged or no file of tf.train.Example: {reason(error)}"
        raise ValueError(f"data.dir: {why_compressed(file) or why}") from None
    except tf.errors.OpError as error:
        expected = f"data.dir: expected records with {IMAGE} and {LABEL} in {file}"
        raise refusal(expected, reason(error)) from None
    return count, texts


@no_autograph
def _parse(first_label: int, record: tf.Tensor, number: tf.Tensor, file: tf.Tensor) -> Record:
    """Parses an example whose labels begin with `first_label`."""
    keys = NEEDED | {NAME: tf.io.FixedLenFeature([], tf.string, "")}
    features = tf.io.parse_single_example(record, keys)
    place = tf.strings.join(["number ", tf.strings.as_string(number), " of ", file])
    name = tf.strings.join([features[NAME], tf.where(features[NAME] == "", "", ", "), place])
    return Record(image=features[IMAGE], label=features[LABEL] - first_label, name=name)
