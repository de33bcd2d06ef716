"""Shards of `tf.train.Example`, as the Cloud TPU tutorials write ImageNet."""

import glob
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from pydantic import BaseModel

from zoo.data.errors import no_autograph, reason
from zoo.data.record_files import Parse, RecordFile, reader
from zoo.data.record_layout import why_compressed
from zoo.data.sources.base import DataSource, Record, Split, StreamSource, file_sizes
from zoo.errors import needs_extra
from zoo.run_folder import INDEX, other_data, read_json

IMAGE, LABEL = "image/encoded", "image/class/label"
TEXT, NAME = "image/class/text", "image/filename"
NEEDED = {
    IMAGE: tf.io.FixedLenFeature([], tf.string),
    LABEL: tf.io.FixedLenFeature([], tf.int64),
}
TRAIN, TEST = "train-*", "validation-*"
SCAN_FILES, SCAN_BATCH = 16, 256  # files at once, and records of one


class Contents(BaseModel):
    """Paths of record files, bytes and records of each, and names ("" without) by label."""

    files: list[str]
    sizes: list[int]
    counts: list[int]
    texts: dict[int, str] = {}


class Index(BaseModel):
    """Training and test files, as a run has found them."""

    train: Contents
    test: Contents


class Source(DataSource):
    """Shards `train-*` and `validation-*` of `tf.train.Example`.

    All are read once, but for those of an index, which have the same names and sizes.
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
        if wrong:
            raise ValueError(
                f"data.classes: expected labels from 0 to {classes - 1} or from 1 to {classes} in "
                f"{folder}. Received: data.classes={classes} and labels such as "
                f"{', '.join(map(str, wrong[:5]))}"
            )
        names = tuple(texts.get(i + first) or str(i) for i in range(classes))
        train_records, test_records = (
            record_stream(part.files, part.counts, parse_as(first), self.config.shuffle_buffer)
            for part in (train, test)
        )
        index = Index(train=train, test=test)
        return Split(train_records, test_records, names, index=index.model_dump(mode="json"))


def _contents(folder: str, pattern: str, known: Contents | None) -> Contents:
    files = sorted(tf.io.gfile.glob(f"{glob.escape(folder.rstrip('/'))}/{pattern}"))
    if not files:
        raise ValueError(
            f"data.dir: expected a folder with files {TRAIN} and {TEST}. Received: {folder!r}, "
            f"which has no {pattern}"
        )
    sizes = file_sizes(files)
    if known is not None:
        before, now = ([*map(os.path.basename, paths)] for paths in (known.files, files))
        if (before, known.sizes) == (now, sizes):
            return known.model_copy(update={"files": files})
        if os.path.dirname(known.files[0]) != os.path.dirname(files[0]):
            raise other_data(folder, f"names or sizes of {pattern}")
    return _scan(Contents(files=files, sizes=sizes, counts=[0] * len(files)), pattern)


def _scan(contents: Contents, pattern: str) -> Contents:
    """Reads all labels, which checks the checksum of every record."""
    with needs_extra("train"):
        from rich.progress import Progress

    files = contents.files
    scanned: Any = tf.data.Dataset.from_tensor_slices(files).enumerate()
    scanned = scanned.interleave(
        _scan_file, SCAN_FILES, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    with Progress(transient=True) as progress:
        task = progress.add_task(f"Counting {pattern[:-2]} images", total=sum(contents.sizes))
        try:
            for file, size, labels, texts in scanned.as_numpy_iterator():
                progress.advance(task, size)
                contents.counts[file] += len(labels)
                values, where = np.unique(labels, return_index=True)
                for label, text in zip(values.tolist(), texts[where].tolist(), strict=True):
                    contents.texts.setdefault(label, text.decode(errors="replace"))
        except tf.errors.OpError as error:
            raise ValueError(_first_fault(files) or f"data.dir: {reason(error)}") from None
    return contents


@no_autograph
def _scan_file(number: tf.Tensor, file: tf.Tensor) -> Any:
    keys = NEEDED | {TEXT: tf.io.FixedLenFeature([], tf.string, "")}

    @no_autograph
    def parse(records: tf.Tensor) -> tuple[tf.Tensor, ...]:
        size = tf.reduce_sum(tf.strings.length(records))
        found: Any = tf.io.parse_example(records, keys)
        return number, size, found[LABEL], found[TEXT]

    return tf.data.TFRecordDataset(file).batch(SCAN_BATCH).map(parse)


def _first_fault(files: Sequence[str]) -> str | None:
    """Names the first file that cannot be read; TensorFlow's error does not."""
    for file in files:
        try:
            for record in tf.data.TFRecordDataset(file).as_numpy_iterator():
                found = set(tf.train.Example.FromString(record).features.feature)
                if not {IMAGE, LABEL} <= found:
                    return (
                        f"data.dir: expected records with {IMAGE} and {LABEL} in {file}. "
                        f"Received: {', '.join(sorted(found))}"
                    )
                tf.io.parse_single_example(record, NEEDED)
        except Exception as error:
            why = f"{file} is damaged or no file of tf.train.Example: {reason(error)}"
            return f"data.dir: {why_compressed(file) or why}"
    return None


def record_stream(
    files: Sequence[str], counts: Sequence[int], parse: Parse, shuffle_buffer: int
) -> StreamSource:
    """Creates the stream of the records of files, whose numbers are known."""
    parts = [RecordFile(file, 0, count) for file, count in zip(files, counts, strict=True)]
    return StreamSource(sum(counts), reader(parts, parse), shuffle_buffer, files)


def parse_as(first_label: int) -> Parse:
    """Creates the parser of examples whose labels begin with this one."""

    @no_autograph
    def parse(record: tf.Tensor, number: tf.Tensor, file: tf.Tensor) -> Record:
        keys = NEEDED | {NAME: tf.io.FixedLenFeature([], tf.string, "")}
        found = tf.io.parse_single_example(record, keys)
        place = tf.strings.join(["number ", tf.strings.as_string(number), " of ", file])
        name = tf.strings.join([found[NAME], tf.where(found[NAME] == "", "", ", "), place])
        return {"image": found[IMAGE], "label": found[LABEL] - first_label, "name": name}

    return parse
