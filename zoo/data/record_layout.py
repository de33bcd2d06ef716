"""Byte offsets of the records in a TFRecord file, and the record that an error is about."""

import re
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import FileIO
from itertools import takewhile
from typing import Any

import tensorflow as tf

from zoo.errors import printable
from zoo.files import in_bucket

BY_ZLIB = (
    'python -c "import sys, zlib; '
    'sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read()))"'
)
HEADER, FOOTER = 12, 4  # length with its checksum, checksum of the record


def record_ends(path: str) -> Iterator[int]:
    """Yields the end of each record in bytes, up to the first incomplete record.

    Reads only the lengths, not the contents; a file in a bucket is read in larger blocks.
    """
    size, end = tf.io.gfile.stat(path).length, 0
    # `open` would fill a buffer at every seek.
    opened: Any = tf.io.gfile.GFile(path, "rb") if in_bucket(path) else FileIO(path)
    with opened as file:
        while end < size:
            file.seek(end)
            end += HEADER + int.from_bytes(file.read(HEADER)[:8], "little") + FOOTER
            if end > size:
                return
            yield end


def why_compressed(path: str) -> str:
    """Returns a message with the command that decompresses a file; "" if it is not compressed."""
    with tf.io.gfile.GFile(path, "rb") as file:
        head: Any = file.read(2**16)
    try:
        if not zlib.decompressobj(47).decompress(head):  # 47: zlib or gzip
            return ""
    except zlib.error:
        return ""
    name, command = ("GZIP", "gzip -dc") if head[:1] == b"\x1f" else ("ZLIB", BY_ZLIB)
    return f"{printable(path)} is compressed ({name}); decompress it: {command} < FILE > NEW_FILE"


def damaged_record(files: Iterable[str], error: Exception) -> str:
    """Names the record at the offset in TensorFlow's error; "" if it is not found."""
    match = re.search(r"record at (\d+)", str(error))
    if match is None:
        return ""
    pool = ThreadPoolExecutor(16)
    try:
        return next(filter(None, pool.map(partial(_damaged_at, int(match[1])), files)), "")
    finally:
        pool.shutdown(cancel_futures=True)


def _damaged_at(place: int, file: str) -> str:
    number = 0
    try:
        if place == 0 and (why := why_compressed(file)):
            return why
        starts = [0, *takewhile(lambda end: end <= place, record_ends(file))]
        number = len(starts) - 1
        if place - starts[-1] in (0, HEADER):  # the error is about the header, or the record
            next(iter(tf.data.TFRecordDataset(file).skip(number)), None)
    except tf.errors.DataLossError:
        return f"record {number} of {printable(file)} is damaged or cut off"
    except (OSError, tf.errors.OpError):  # gone meanwhile
        pass
    return ""
