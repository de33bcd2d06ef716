"""Images to label: TFRecord shards, data sets of TFDS, image files, divided into ranges."""

import hashlib
import os
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError

from zoo.data.errors import reason
from zoo.data.image_files import OTHERS, Notes, find_images, print_notes
from zoo.data.pseudo_records import IMAGE, NAME
from zoo.data.record_layout import record_ends, why_compressed
from zoo.data.sources import tfds
from zoo.errors import needs_extra, printable, refusal, require, some
from zoo.files import answering, expand, in_bucket, location, why_no_file

TFDS = "tfds:"
AT_ONCE = 16  # files whose headers are read: a bucket answers slowly


class DamagedError(ValueError):
    """Error of a shard whose further records cannot be read."""


@dataclass(frozen=True)
class Range:
    """Image files, or successive records of a TFRecord file."""

    files: tuple[str, ...]
    take: int  # number of images; -1: all records
    skip: int = 0  # records
    key: str | None = None  # feature of the image in a record; None: image files

    def read(self) -> Iterator[tuple[bytes, str]]:
        """Yields image files and names for messages; raises `DamagedError`.

        Missing files, and records without an image, yield b"".
        """
        return self._read_files() if self.key is None else self._read_records(self.key)

    def _read_files(self) -> Iterator[tuple[bytes, str]]:
        for file in self.files:
            try:
                # Reading a pipe would never end.
                there = in_bucket(file) or os.path.isfile(file)
                yield location(file).read_bytes() if there else b"", file
            except OSError:
                yield b"", file

    def _read_records(self, key: str) -> Iterator[tuple[bytes, str]]:
        (file,), number = self.files, self.skip
        records: Any = tf.data.TFRecordDataset(file).skip(self.skip).take(self.take)
        try:
            for record in records.as_numpy_iterator():
                features = _features(record)
                name = _first(features, NAME).decode(errors="surrogateescape")
                yield _first(features, key), name or f"number {number} of {os.path.basename(file)}"
                number += 1
        except tf.errors.OpError as error:
            why = why_compressed(file) or reason(error)
            raise DamagedError(f"{printable(file)}, after {number:,} records ({why})") from None

    def describe(self) -> dict[str, Any]:
        """Returns the entry of `job.json`; for image files, it has a digest of their names."""
        entry: dict[str, Any] = {"file": self.files[0], "take": self.take}
        if self.key is not None:
            return entry | {"skip": self.skip}
        names = "\n".join(self.files).encode(errors="surrogateescape")
        return entry | {"names": short_digest(names)}


def short_digest(content: bytes) -> str:
    """Returns the first 12 hex digits of a SHA-256 digest, as in job files."""
    return hashlib.sha256(content).hexdigest()[:12]


def sizes_and_times(ranges: Sequence[Range]) -> str:
    """Returns a digest of sizes and modification times, which shows whether files changed."""
    files = list(dict.fromkeys(file for images in ranges for file in images.files))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        states = (pool.map if in_bucket(files[0]) else map)(_state, files)
        return short_digest(repr(list(states)).encode())


def _state(file: str) -> tuple[int, int] | None:
    try:
        if in_bucket(file):
            status: Any = tf.io.gfile.stat(file)
            return status.length, status.mtime_nsec
        status = os.stat(file)
        return status.st_size, status.st_mtime_ns
    except (OSError, tf.errors.OpError):  # the file counts as unreadable
        return None


def find_ranges(pattern: str, range_size: int, folder: Any, skip_damaged: bool) -> list[Range]:
    """Finds the images that `--input` names, in ranges of `range_size` or less.

    With a `range_size` of 0, each file of records is a range; records are then not counted.
    `folder` has the data sets of TFDS.
    """
    if pattern.startswith(TFDS):
        return _tfds_ranges(pattern.removeprefix(TFDS), range_size, folder)
    notes = Notes()
    with answering(location(pattern)):
        paths = [location(path) for path in expand(pattern)]
        images = find_images(paths, notes)
    others = sorted(notes.get(OTHERS, ()))
    if images:
        print_notes(notes)
        names = [str(image) for image in images]
        size = range_size or len(names)
        parts = (tuple(names[i : i + size]) for i in range(0, len(names), size))
        return [Range(part, len(part)) for part in parts]
    require(
        others and {*others} <= {*paths},
        "input: expected TFRecord files or image files, for example 'FOLDER/train-*' or "
        f"'FOLDER/**/*.jpg', a folder of images, or {TFDS}NAME[:SPLIT]",
        f"{pattern!r}, which {'has no images' if paths else 'matches none'}",
    )
    return _record_ranges([str(path) for path in others], range_size, skip_damaged)


def _record_ranges(files: Sequence[str], range_size: int, skip_damaged: bool) -> list[Range]:
    if range_size == 0:
        _check_key(files[0])
        return [Range((file,), -1, key=IMAGE) for file in files]
    with needs_extra("train"):
        from rich.progress import track
    with ThreadPoolExecutor(AT_ONCE) as pool:
        counted = pool.map(_count_records, files)
        tracked = track(counted, "Counting records", len(files), transient=True)
        counts = dict(zip(files, tracked, strict=True))
    damaged = [
        f"{printable(file)} (after {count:,} records)"
        for file, (count, whole) in counts.items()
        if not whole
    ]
    if damaged and not skip_damaged:
        hint = "--damaged skip leaves the rest of each out"
        raise ValueError(f"input: damaged or no TFRecord files: {some(damaged, 5)}; {hint}")
    first = next((file for file, (count, _) in counts.items() if count), None)
    if first is None:
        raise refusal("input: expected images", f"{len(files)} files without records")
    _check_key(first)
    # One record more than is intact, so that reading the range finds and reports the damage.
    takes = ((file, count + (not whole)) for file, (count, whole) in counts.items())
    return [part for file, take in takes for part in _divided(file, 0, take, range_size)]


def _divided(file: str, skip: int, take: int, size: int, key: str = IMAGE) -> list[Range]:
    end, size = skip + take, size or take
    begins = range(skip, end, size)
    return [Range((file,), min(size, end - begin), begin, key) for begin in begins]


def _count_records(path: str) -> tuple[int, bool]:
    """Returns the number of intact records, and whether they fill the whole file."""
    if not in_bucket(path) and (why := why_no_file(path)):
        raise ValueError(f"input: expected a file of records. Received: {printable(path)} ({why})")
    ends = array("q", record_ends(path))
    if not ends and (why := why_compressed(path)):
        raise ValueError(f"input: {why}")
    return len(ends), (ends[-1] if ends else 0) == tf.io.gfile.stat(path).length


def _check_key(file: str) -> None:
    """Checks that the first record of a file has an image."""
    try:
        first: Any = next(tf.data.TFRecordDataset(file).take(1).as_numpy_iterator(), b"")
    except tf.errors.OpError as error:
        why = why_compressed(file) or f"{printable(file)} is damaged: {reason(error)}"
        raise ValueError(f"input: {why}") from None
    features = _features(first)
    if not _first(features, IMAGE):
        keys = ", ".join(sorted(map(printable, features))) or "no tf.train.Example"
        raise refusal(f"input: expected records with {IMAGE} in {printable(file)}", keys)


def _features(record: Any) -> dict[str, Any]:
    try:
        return dict(tf.train.Example.FromString(record).features.feature)
    except DecodeError:
        return {}


def _first(features: dict[str, Any], key: str) -> bytes:
    values = features[key].bytes_list.value if key in features else ()
    return values[0] if values else b""


def _tfds_ranges(name: str, range_size: int, folder: Any) -> list[Range]:
    """Returns ranges of a prepared data set, by the record counts of its metadata."""
    with needs_extra("train"):
        import tensorflow_datasets
    name, _, split = name.partition(":")
    split = split or "train"
    try:
        builder = tfds.find_builder(name, folder and str(folder))
        tfds.check_split(builder, split, "split")
        tfds.check_files(builder, split)
        tfds.check_pixels(builder)
    except ValueError as error:  # messages begin with a setting of training
        raise ValueError(f"input: {str(error).partition(': ')[2]}") from None
    image = dict(builder.info.features.items()).get("image")
    form = builder.info.file_format.value
    if not isinstance(image, tensorflow_datasets.features.Image) or form != "tfrecord":
        names = ", ".join(sorted(builder.info.features))
        way = "" if form == "tfrecord" else f"; {tfds.to_tfrecords(builder, name, folder)}"
        expected = "input: expected a data set with the feature image (Image), in TFRecord files"
        raise refusal(expected, f"{name!r} with {names}, in {form} files{way}")
    return [
        part
        for shard in builder.info.splits[split].file_instructions
        for part in _divided(str(shard.filename), shard.skip, shard.take, range_size, "image")
    ]
