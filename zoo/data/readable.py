"""Checks that image files can be decoded."""

import hashlib
import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from zoo.backend import cores
from zoo.data.image_files import to_jpeg_or_png
from zoo.errors import needs_extra, printable, some
from zoo.files import why_no_file

CHECKS = 2  # version of the cache; raise it when checks change, to read all files again
MANY = 1000  # files between two writes to the cache
TABLE = (
    "CREATE TABLE IF NOT EXISTS images "
    "(path PRIMARY KEY, size, written, changed, digest, height, width) WITHOUT ROWID"
)
FIND = (
    "SELECT ?, '', digest, height, width FROM images "
    "WHERE (path, size, written, changed) = (?, ?, ?, ?)"
)
ADD = "REPLACE INTO images VALUES (?, ?, ?, ?, ?, ?, ?)"


class ImageFile(NamedTuple):
    """An image file that was read once; `why` says why it is unreadable, "" if it is readable.

    `digest` is a hash of its contents; height and width are in pixels, as stored. `label` is the
    index of its class, where there are classes.
    """

    path: str
    why: str = ""
    digest: bytes = b""
    height: int = 0
    width: int = 0
    label: int = 0


def check_readable(
    paths: Sequence[str],
    skip: bool = False,
    remember: bool = False,
    read: Callable[[str], ImageFile] | None = None,
) -> list[ImageFile]:
    """Reads image files in parallel, in full: a header does not show that a file is cut off.

    Raises an error that names up to five unreadable files, unless `skip`. With `remember`, readable
    files are cached: they are not read again while their size and the times of their last change
    stay the same.
    """
    with needs_extra("train"):
        from rich.progress import track

    keys = {path: key for path in paths if remember and (key := _key(path))}
    rows = _remembered(FIND, [(os.fsencode(path), *key) for path, key in keys.items()])
    files = {os.fsdecode(path): ImageFile(os.fsdecode(path), *others) for path, *others in rows}
    unknown = [path for path in paths if path not in files]
    if remember and len(unknown) >= MANY:
        print(f"reading {len(unknown):,} image files, once for all starts", file=sys.stderr)
    with ThreadPoolExecutor(cores()) as pool:
        reading = track(
            pool.map(read or read_image, unknown), "Checking images", len(unknown), transient=True
        )
        while some_files := list(islice(reading, MANY)):
            files |= {file.path: file for file in some_files}
            new = [file for file in some_files if file.path in keys and not file.why]
            _remembered(ADD, [(*keys[file.path], *file[2:5]) for file in new])
    image_files = [files[path] for path in paths]
    broken = [f"{printable(file.path)} ({file.why})" for file in image_files if file.why]
    if broken and not skip:
        raise ValueError(f"unreadable image files: {some(broken, 5)}")
    return image_files


def _remembered(statement: str, rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Runs a statement for each row in the database of readable files, in the user's cache folder.

    If the database cannot be used, returns no rows, and images are read again.
    """
    if not rows:
        return []
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = Path(folder, "lambda_keras", f"images-{CHECKS}.sqlite")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=10)) as database, database:
            database.execute(TABLE)
            return [result for row in rows for result in database.execute(statement, row)]
    except (OSError, sqlite3.Error) as error:
        if type(error) is sqlite3.DatabaseError:  # damaged, neither locked nor read-only
            path.unlink(missing_ok=True)
        return []


def _key(path: str) -> tuple[bytes, int, int, int] | None:
    """Returns the absolute path and the size of a file, and the times of its last change.

    Programs can set the time of the contents (mtime), but not the time of the inode (ctime).
    """
    with suppress(OSError, ValueError):
        stat = os.stat(path)
        place = os.fsencode(os.path.abspath(path))
        return place, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
    return None


def read_image(path: str) -> ImageFile:
    """Reads an image file, and decodes it."""
    # `--help` does not import TensorFlow.
    from zoo.data.crops import check_content

    try:
        if why := why_no_file(path):  # reading a pipe would never end
            raise ValueError(why)
        content = Path(path).read_bytes()
        size = check_content(to_jpeg_or_png(content))
        return ImageFile(path, "", hashlib.blake2b(content, digest_size=16).digest(), *size)
    except Exception as error:  # decoders raise many kinds
        return ImageFile(path, printable(error))
