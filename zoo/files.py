"""Files and folders that are either whole or not there."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PARTIAL = ".partial-"


def remove(path: Path) -> None:
    """Removes a file, or a folder with all it holds; fine if there is none."""
    if path.is_dir() and not path.is_symlink():
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

    Args:
        path: Where the file or new folder shall be. The path to write to ends alike, because
            Keras and matplotlib choose the format by the suffix.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{_PARTIAL}{os.getpid()}-{path.name}")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        remove(beside)
