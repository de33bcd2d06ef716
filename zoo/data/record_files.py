"""Streams of records from TFRecord files of known counts, which can start at any step."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from zoo.data.errors import no_autograph, reason
from zoo.devices import Host
from zoo.errors import errors_of, printable, require
from zoo.files import in_bucket, why_no_file

AT_ONCE = 4  # files in a group
ROUND = 4  # records of each file in a round
PARTS = 8  # parts of a stream, which up to as many hosts share
GROUP = 16  # images that are looked up together, and decoded by one processor

# Takes a serialized record, its number in the file, from 0, and the path of the file.
Parse = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Any]


class RecordFile(NamedTuple):
    """A TFRecord file, of which `take` records are read after `skip` others."""

    path: str
    skip: int
    take: int
    before: int = 0  # for records in memory: number of records of earlier files, less `skip`


@dataclass(frozen=True)
class StreamSource:
    """Records that are read sequentially, in parts whose sizes differ by at most one record.

    A training batch has equally many records of each part, and a host reads some of the parts. If 8
    divides the batch size, 1, 2, 4 or 8 hosts together read the batches of a single host. If hosts
    cannot share the parts evenly, each host is a part.

    Files are shuffled, then read in groups of `AT_ONCE`, one group after the other; a group is read
    in rounds of `ROUND` records of each file. Undecoded records of a part are then shuffled in
    chunks: one is used while the next one is read. These chunks of all parts together hold
    `shuffle_buffer` records. A run that is resumed within an epoch starts to read at the group of
    its chunk.
    """

    records: Sequence[RecordFile]
    parse: Parse
    shuffle_buffer: int
    memory: Any = None  # all records, parsed, in place of the files

    @property
    def count(self) -> int:
        """Number of records."""
        return sum(file.take for file in self.records)

    @property
    def files(self) -> list[str]:
        """Paths, for messages."""
        return [file.path for file in self.records]

    def training(self, batch_size: int, first_step: int, host: Host, seed: int) -> tf.data.Dataset:
        """See `IndexedSource`."""
        parts = host.split(math.gcd(batch_size, PARTS))
        streams = [self._part(batch_size, first_step, part, seed) for part in parts]
        turns = np.repeat(np.arange(len(streams)), parts[0].size(batch_size))
        choices = tf.data.Dataset.from_tensor_slices(turns.astype("int64")).repeat()
        return self._in_groups(tf.data.Dataset.choose_from_datasets(streams, choices))

    def testing(self, batch_size: int, host: Host) -> tf.data.Dataset:
        """See `IndexedSource`."""
        return self._in_groups(self.read(host))

    def _part(self, batch_size: int, first_step: int, part: Host, seed: int) -> tf.data.Dataset:
        size, steps = part.size(batch_size), self.count // batch_size
        first_epoch, steps_done = divmod(first_step, steps)
        chunk_size = max(self.shuffle_buffer // 2 // part.count, 1)

        @no_autograph
        def epoch(number: tf.Tensor) -> tf.data.Dataset:
            # This seed is for this function's graph; the global seed must not change the order.
            tf.random.set_seed(1)
            file_seed, chunk_seed = tf.unstack(
                tf.random.stateless_uniform(
                    [2], tf.stack([tf.constant(seed, tf.int64), number]), 0, 2**31 - 1, tf.int64
                )
            )
            over: Any = tf.where(number == first_epoch, tf.constant(steps_done * size, tf.int64), 0)
            first = over // chunk_size
            chunks: Any = self.read(part, file_seed, first * chunk_size).window(chunk_size)
            shuffled = (
                chunks.enumerate(first)
                .prefetch(1)
                .flat_map(partial(_shuffled, chunk_seed, chunk_size))
            )
            return shuffled.skip(over % chunk_size).take(steps * size - over)

        return tf.data.Dataset.range(first_epoch, tf.int64.max).flat_map(epoch)

    def read(self, host: Host, order: tf.Tensor | None = None, first: Any = 0) -> tf.data.Dataset:
        """Returns the records of a host, or their places in memory, from number `first` on.

        `order` is the seed of the order of the files; None: they stay in order. The groups before
        the one of the first record are not read.
        """
        part = _part(self.records, host)
        paths, skips, takes, before = map(np.array, zip(*part, strict=True))
        files = tf.range(len(part))
        if order is not None:
            files = tf.random.experimental.stateless_shuffle(  # pyright: ignore
                files, tf.stack([order, tf.zeros_like(order)])
            )
        ends: Any = tf.cumsum(
            tf.math.segment_sum(tf.gather(takes, files), tf.range(len(part)) // AT_ONCE)
        )
        over = tf.cast(first, ends.dtype)
        group = tf.searchsorted(ends, over[None], "right")[0]
        over -= tf.pad(ends, [[1, 0]])[group]
        every, remaining = (paths, skips, takes, before), files[group * AT_ONCE :]
        columns = tuple(tf.gather(values, remaining) for values in every)
        groups: Any = tf.data.Dataset.from_tensor_slices(columns).window(AT_ONCE)
        return self._parsed(groups.flat_map(no_autograph(self._interleaved)).skip(over))

    def in_order(self) -> tf.data.Dataset:
        """Returns every record once, file by file."""
        paths, skips, takes, before = map(np.array, zip(*self.records, strict=True))
        files = tf.data.Dataset.from_tensor_slices((paths, skips, takes, before))
        return self._parsed(files.flat_map(no_autograph(self._read_file)))

    def with_pixels(
        self, images: np.ndarray, labels: np.ndarray, names: np.ndarray
    ) -> "StreamSource":
        """Returns the same records with decoded images; arrays are in the order of `in_order`."""
        takes = np.array([file.take for file in self.records])
        before = (np.cumsum(takes) - takes).tolist()
        files = [
            file._replace(before=first - file.skip)
            for file, first in zip(self.records, before, strict=True)
        ]
        memory = {"image": images, "label": labels, "name": names}
        return replace(self, records=files, memory=tf.nest.map_structure(tf.constant, memory))

    def _parsed(self, records: tf.data.Dataset) -> tf.data.Dataset:
        return records.map(self.parse) if self.memory is None else records

    def _in_groups(self, records: tf.data.Dataset) -> tf.data.Dataset:
        @no_autograph
        def look_up(places: tf.Tensor) -> Any:
            return tf.nest.map_structure(lambda values: tf.gather(values, places), self.memory)

        groups = records.batch(GROUP)
        return groups if self.memory is None else groups.map(look_up)

    def _read_file(
        self, path: tf.Tensor, skip: tf.Tensor, take: tf.Tensor, before: tf.Tensor
    ) -> tf.data.Dataset:
        """Returns the arguments of `parse` for the records of a file, or their places in memory."""
        if self.memory is not None:
            return tf.data.Dataset.range(before + skip, before + skip + take)
        numbers = tf.data.Dataset.range(skip, skip + take)
        paths = tf.data.Dataset.from_tensors(path).repeat()
        return tf.data.Dataset.zip(tf.data.TFRecordDataset(path).skip(skip), numbers, paths)

    def _interleaved(self, *group: tf.data.Dataset) -> tf.data.Dataset:
        files: Any = tf.data.Dataset.zip(*group)
        return files.interleave(
            no_autograph(self._read_file),
            AT_ONCE,
            ROUND,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )


@no_autograph
def _shuffled(
    seed: tf.Tensor, size: int, number: tf.Tensor, chunk: dict[str, tf.data.Dataset]
) -> tf.data.Dataset:
    tf.random.set_seed(1)
    chunk_seed: Any = tf.random.stateless_uniform(
        [], tf.stack([seed, number]), 0, 2**31 - 1, tf.int64
    )
    return tf.data.Dataset.zip(chunk).shuffle(size, chunk_seed, reshuffle_each_iteration=False)


def _part(files: Sequence[RecordFile], host: Host) -> list[RecordFile]:
    """Returns the part of a host: consecutive records of consecutive files."""
    takes = np.array([file.take for file in files])
    ends = np.cumsum(takes)
    bounds = np.arange(host.index, host.index + 2) * ends[-1] // host.count
    skips, stops = (np.clip(bound - (ends - takes), 0, takes).tolist() for bound in bounds)
    return [
        file._replace(skip=file.skip + skip, take=stop - skip)
        for file, skip, stop in zip(files, skips, stops, strict=True)
        if stop > skip
    ]


def file_sizes(paths: Sequence[str]) -> list[int]:
    """Returns the sizes in bytes of record files, none of which may be missing or empty."""

    def size(path: str) -> int:
        why = "" if in_bucket(path) else why_no_file(path)
        with errors_of("data.dir", tf.errors.OpError, reason):
            length = 0 if why else tf.io.gfile.stat(path).length
        require(
            length, "data.dir: expected a file of records", f"{printable(path)} ({why or 'empty'})"
        )
        return length

    with ThreadPoolExecutor(16) as pool:  # a bucket answers slowly
        return list(pool.map(size, paths))
