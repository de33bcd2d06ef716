"""TFRecord files of known counts, whose records are read in order from any position on."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from zoo.data.errors import no_autograph, reason
from zoo.data.record_layout import record_ends
from zoo.devices import Host
from zoo.errors import printable

AT_ONCE = 4  # files in a group
ROUND = 4  # records of each file
BUFFER = 256 * 1024  # bytes, as in `tf.data.TFRecordDataset`


class RecordFile(NamedTuple):
    """A TFRecord file, of which records are skipped and taken."""

    path: str
    skip: int
    take: int


# Takes a serialized record, its number in the file, from 0, and the path of the file.
Parse = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Any]
# Takes the host whose part is read, for training the seed of the order of the files, and how many
# records of that order come before the first one to read (0 where the seed is not yet known).
Read = Callable[[Host, tf.Tensor | None, int], tf.data.Dataset]


def reader(files: Sequence[RecordFile], parse: Parse) -> Read:
    """Creates the reader of a host's records; their number differs by at most one by host.

    Files are read in groups of `AT_ONCE`, the shuffled ones one group after the other. A group is
    read in rounds of `ROUND` records of each file, so that the position in all files follows from
    the number of records. The bytes before that position are not read.
    """

    def read(host: Host, order: Any, first: int = 0) -> tf.data.Dataset:
        part, over = _part(files, host), 0
        paths, skips, takes = (np.array(values) for values in zip(*part, strict=True))
        columns: Any = (paths, skips, takes, np.zeros_like(skips))
        if first:
            with tf.init_scope():  # the seed is known
                shuffled = _shuffled(len(part), order).numpy()
            paths, skips, takes, offsets = (values[shuffled] for values in columns)
            columns, over = _seek(paths, skips, takes, offsets, first)
        elif order is not None:
            shuffled = _shuffled(len(part), order)
            columns = tuple(tf.gather(values, shuffled) for values in columns)
        groups: Any = tf.data.Dataset.from_tensor_slices(columns).window(AT_ONCE)
        return groups.flat_map(interleave).skip(over).map(parse)

    @no_autograph
    def interleave(*group: tf.data.Dataset) -> tf.data.Dataset:
        files: Any = tf.data.Dataset.zip(*group)
        return files.interleave(
            _read_file, AT_ONCE, ROUND, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )

    return read


def _shuffled(count: int, seed: Any) -> Any:
    both = tf.stack([seed, tf.zeros_like(seed)])
    return tf.random.experimental.stateless_shuffle(  # pyright: ignore
        tf.range(count), both
    )


@no_autograph
def _read_file(
    path: tf.Tensor, number: tf.Tensor, take: tf.Tensor, offset: tf.Tensor
) -> tf.data.Dataset:
    """Records from a number on, whose offset in bytes is 0 if it is not known."""
    records: Any = tf.data.experimental.from_variant(
        tf.raw_ops.TFRecordDatasetV2(
            filenames=[path], compression_type="", buffer_size=BUFFER, byte_offsets=[offset]
        ),
        tf.TensorSpec([], tf.string),
    )
    records = records.skip(tf.where(offset > 0, tf.zeros_like(number), number))
    numbers = tf.data.Dataset.range(number, number + take)
    return tf.data.Dataset.zip(records, numbers, tf.data.Dataset.from_tensors(path).repeat())


def _part(files: Sequence[RecordFile], host: Host) -> list[RecordFile]:
    """Returns the part of a host: consecutive records of consecutive files."""
    takes = np.array([file.take for file in files])
    ends = np.cumsum(takes)
    bounds = np.arange(host.index, host.index + 2) * ends[-1] // host.count
    skips = np.clip(bounds[0] - (ends - takes), 0, takes)
    takes = np.clip(bounds[1] - (ends - takes), 0, takes) - skips
    return [
        RecordFile(file.path, file.skip + skip, take)
        for file, skip, take in zip(files, skips.tolist(), takes.tolist(), strict=True)
        if take
    ]


def _seek(
    paths: np.ndarray, skips: np.ndarray, takes: np.ndarray, offsets: np.ndarray, first: int
) -> tuple[tuple[np.ndarray, ...], int]:
    """Returns the files from the round of a record on, and how many of that round to read over."""
    ends = np.cumsum(np.add.reduceat(takes, np.arange(0, len(takes), AT_ONCE)))
    group = int(np.searchsorted(ends, first, "right"))
    rest = first - (int(ends[group - 1]) if group else 0)
    columns = tuple(values[group * AT_ONCE :] for values in (paths, skips, takes, offsets))
    paths, skips, takes, offsets = columns
    size = len(takes[:AT_ONCE])
    rounds = np.arange(takes[:size].max() // ROUND + 1)[:, None] * ROUND
    read = np.minimum(takes[:size], rounds)  # (round, file)
    read = read[np.searchsorted(read.sum(1), rest, "right") - 1]
    rest -= int(read.sum())
    skips[:size] += read
    takes[:size] -= read
    left = np.flatnonzero(takes[:size])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        offsets[left] = list(pool.map(_offset, paths[left].tolist(), skips[left].tolist()))
    return columns, rest


def _offset(path: str, number: int) -> int:
    """Returns the place of a record in its file in bytes, by the lengths of those before."""
    why = "cut off"
    try:
        end = 0 if number == 0 else next(islice(record_ends(path), number - 1, None), None)
    except (OSError, tf.errors.OpError) as error:
        end, why = None, reason(error)
    if end is None:
        raise ValueError(
            f"data.dir: expected {number} records or more in {printable(path)}. Received: a "
            f"damaged or other file ({why})"
        )
    return end
