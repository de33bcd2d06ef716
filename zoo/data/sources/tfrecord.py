"""Shards of `tf.train.Example`, as the Cloud TPU tutorials write ImageNet."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from zoo.data.errors import no_autograph, reason
from zoo.data.sources.base import DataSource, Record, Split, StreamSource, file_sizes
from zoo.devices import Host
from zoo.errors import needs_extra

IMAGE, LABEL = "image/encoded", "image/class/label"
TEXT, NAME = "image/class/text", "image/filename"
NEEDED = {
    IMAGE: tf.io.FixedLenFeature([], tf.string),
    LABEL: tf.io.FixedLenFeature([], tf.int64),
}
TRAIN, TEST = "train-*", "validation-*"
SCAN_BATCH = 256
AT_ONCE = 16  # files, and records of each, as TFDS reads its files


class Contents(NamedTuple):
    """Paths of record files, number of records of each, and names ("" without) by label."""

    files: list[str]
    counts: list[int]
    texts: dict[int, str]


class Source(DataSource):
    """Shards `train-*` and `validation-*` of `tf.train.Example`, all of which are read once."""

    def open(self, image_size: int) -> Split:
        folder, classes = self.config.dir or "", self.config.classes or 0
        train, test = (_scan(folder, pattern) for pattern in (TRAIN, TEST))
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
        return Split(train_records, test_records, names)


def _scan(folder: str, pattern: str) -> Contents:
    """Reads all labels, which checks the checksum of every record."""
    with needs_extra("train"):
        from rich.progress import Progress

    files = sorted(tf.io.gfile.glob(f"{folder.rstrip('/')}/{pattern}"))
    if not files:
        raise ValueError(
            f"data.dir: expected a folder with files {TRAIN} and {TEST}. Received: {folder!r}, "
            f"which has no {pattern}"
        )
    sizes = file_sizes(files)
    contents = Contents(files, [0] * len(files), {})
    scanned: Any = tf.data.Dataset.from_tensor_slices(files).enumerate()
    scanned = scanned.interleave(
        _scan_file, AT_ONCE, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    with Progress(transient=True) as progress:
        task = progress.add_task(f"Counting {pattern[:-2]} images", total=sum(sizes))
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
            return f"data.dir: {file} is damaged or no file of tf.train.Example: {reason(error)}"
    return None


# Takes a serialized example, its number in its file, and the file; returns a record.
Parse = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Record]


def record_stream(
    files: Sequence[str], counts: Sequence[int], parse: Parse, shuffle_buffer: int
) -> StreamSource:
    """Creates the stream of the records of files; those of hosts differ by at most one record."""

    def read(host: Host, order: Any) -> tf.data.Dataset:
        part: Any = tf.data.Dataset.from_tensor_slices(_part(files, counts, host))
        if order is not None:
            part = part.shuffle(len(files), order, reshuffle_each_iteration=False)
        records = part.interleave(
            read_file, AT_ONCE, AT_ONCE, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
        return records.map(parse)

    @no_autograph
    def read_file(file: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        numbers = tf.data.Dataset.range(skip, skip + take)
        records = tf.data.TFRecordDataset(file).skip(skip)
        return tf.data.Dataset.zip(records, numbers, tf.data.Dataset.from_tensors(file).repeat())

    return StreamSource(sum(counts), read, shuffle_buffer)


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


def _part(
    files: Sequence[str], counts: Sequence[int], host: Host
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Returns a host's files, and how many records of each to skip and to take."""
    ends = np.cumsum(counts)
    bounds = np.arange(host.index, host.index + 2) * ends[-1] // host.count
    starts = ends - counts
    skip = np.clip(bounds[0] - starts, 0, counts)
    take = np.clip(bounds[1] - starts, 0, counts) - skip
    chosen = np.flatnonzero(take)
    return [files[i] for i in chosen.tolist()], skip[chosen], take[chosen]
