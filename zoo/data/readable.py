"""Checks that image files can be decoded."""

import hashlib
import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from zoo.data.image_files import to_jpeg_or_png
from zoo.errors import needs_extra, printable, some
from zoo.files import why_no_file

CHECKS = 1  # to be raised where more is checked: all files are then read again
MANY = 1000  # files after which those that were read are remembered


class ImageFile(NamedTuple):
    """An image file that was read once, and why it is unreadable: "" if it is readable.

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
    paths: Sequence[str], skip: bool = False, remember: bool = False
) -> list[ImageFile]:
    """Reads image files in parallel, as a whole: a header does not show that a file is cut off.

    Unless it should `skip` them, raises an error that names up to five unreadable files. Files that
    are readable and that it should `remember` are not read again while size and time of their last
    change stay the same.
    """
    with needs_extra("train"):
        from rich.progress import track

    seen = Seen() if remember else None
    keys = {path: _key(path) for path in paths} if seen else {}
    files = {path: file for path in keys if seen and (file := seen.find(path, keys[path]))}
    unknown = [path for path in paths if path not in files]
    if seen and len(unknown) >= MANY:
        print(f"reading {len(unknown):,} image files, once for all starts", file=sys.stderr)
    new = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for file in track(
            pool.map(_read, unknown), "Checking images", len(unknown), transient=True
        ):
            files[file.path] = file
            if keys.get(file.path) and not file.why:
                new.append((*keys[file.path], *file[2:5]))
            if seen and (len(new) == MANY or file.path == unknown[-1]):
                seen.add(new)
                new.clear()
    found = [files[path] for path in paths]
    broken = [f"{printable(file.path)} ({file.why})" for file in found if file.why]
    if broken and not skip:
        raise ValueError(f"unreadable image files: {some(broken, 5)}")
    return found


class Seen:
    """Readable image files that were read before, in a file of the user's cache folder.

    Where this cannot be read or written, images are read again.
    """

    def __init__(self) -> None:
        folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self.path = Path(folder, "lambda_keras", f"images-{CHECKS}.sqlite")
        self._database: sqlite3.Connection | None = None
        with self._harmless():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self.path, timeout=10)
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS images (path PRIMARY KEY, size, changed, digest, "
                "height, width) WITHOUT ROWID"
            )

    def find(self, path: str, key: Sequence[Any]) -> ImageFile | None:
        """Returns a file of this path, size and time of change."""
        row = None
        with self._harmless():
            if self._database is not None and key:
                columns = (
                    "digest, height, width FROM images WHERE (path, size, changed) = (?, ?, ?)"
                )
                row = self._database.execute(f"SELECT {columns}", key).fetchone()
        return row and ImageFile(path, "", *row)

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Adds files that were read."""
        with self._harmless():
            if self._database is not None:
                self._database.executemany("REPLACE INTO images VALUES (?, ?, ?, ?, ?, ?)", rows)
                self._database.commit()

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            self._database = None
            if type(error) is sqlite3.DatabaseError:  # damaged, neither locked nor read-only
                self.path.unlink(missing_ok=True)


def _key(path: str) -> Sequence[Any]:
    """Returns the absolute path, the size and the time of the last change of a file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ()
    return os.fsencode(os.path.abspath(path)), found.st_size, found.st_mtime_ns


def _read(path: str) -> ImageFile:
    # `--help` comes without TensorFlow.
    from zoo.data.crops import check_content

    try:
        if why := why_no_file(path):  # reading a pipe would never end
            raise ValueError(why)
        content = Path(path).read_bytes()
        size = check_content(to_jpeg_or_png(content))
        return ImageFile(path, "", hashlib.blake2b(content, digest_size=16).digest(), *size)
    except Exception as error:  # decoders raise many kinds
        return ImageFile(path, printable(error))
