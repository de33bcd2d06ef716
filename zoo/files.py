"""Files and folders that are either whole or not there, on this machine or in a bucket."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zoo.errors import needs_extra

BUCKETS = ("gs://",)
_PARTIAL = ".partial-"


def location(path: Any) -> Any:
    """Returns the `pathlib.Path` of a file or folder, or for a bucket what behaves like one.

    Raises:
        ValueError: If it is a URL of another kind.
    """
    text = os.fspath(path)
    if "://" not in text:
        return Path(text)
    if not text.startswith(BUCKETS):
        raise ValueError(f"expected a path, or one in a bucket, {BUCKETS[0]}. Received: {text!r}")
    with needs_extra("train"):
        from etils import epath
    return epath.Path(text)


def in_bucket(path: Any) -> bool:
    """Returns whether a path is not of this machine."""
    return os.fspath(path).startswith(BUCKETS)


def why_no_file(path: Any) -> str:
    """Returns why there is no file to read on this machine, or "" if there is.

    Pipes, devices and sockets are no files: reading them may never end.
    """
    try:
        return "" if stat.S_ISREG(os.stat(path).st_mode) else "not a regular file"
    except OSError as error:
        return str(error.strerror)


def remove(path: Path) -> None:
    """Removes a file, or a folder with all it holds; fine if there is none."""
    if in_bucket(path):
        place: Any = path
        place.rmtree(missing_ok=True) if place.is_dir() else place.unlink(missing_ok=True)
    elif path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_partial(folder: Path) -> None:
    """Removes what a killed process left half written in a folder by `replacing`."""
    for path in folder.glob(f"{_PARTIAL}*"):
        remove(path)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a path beside `path` to write to, and renames it to `path` if nothing failed.

    Into a bucket a file is copied instead, where it is either whole or not there, too.

    Args:
        path: Where the file or new folder shall be. The path to write to ends alike, because
            Keras and matplotlib choose the format by the suffix.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if in_bucket(path):
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder) / path.name
            yield here
            _copy(here, path)
        return
    beside = path.with_name(f"{_PARTIAL}{os.getpid()}-{path.name}")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        remove(beside)


@contextmanager
def on_this_machine(path: Path) -> Iterator[Path]:
    """Yields a path that any library can read: of a file in a bucket, that of a copy."""
    if not in_bucket(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / path.name
        _copy(path, here)
        yield here


def _copy(source: Any, target: Any) -> None:
    from etils import epath

    epath.Path(source).copy(target, overwrite=True)
