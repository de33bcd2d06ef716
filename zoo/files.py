"""Files and folders that are either whole or not there, on this machine or in a bucket."""

import errno
import fcntl
import glob
import io
import os
import reprlib
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from zoo.errors import needs_extra

BUCKETS = ("gs://",)
_PARTIAL, _OLD = ".partial-", ".old-"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no room: on the disk, for a user, in a file


class FullDiskError(OSError):
    """No room for a file: its error number, the reason, and the name that it should have had."""


def location(path: Any) -> Any:
    """Returns the `pathlib.Path` of a file or folder, or for a bucket what behaves like one.

    Raises:
        ValueError: If it is no path, a URL of another kind, or nothing can have such a name.
    """
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise ValueError(f"expected a path. Received: {reprlib.repr(path)}")
    text = os.fspath(path)
    if "://" not in text:
        try:
            text.encode()
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                os.lstat(text)  # which refuses links that lead round in circles
        except (ValueError, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"expected a path. Received: {text[:80]!r} ({reason})") from None
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
    except (OSError, ValueError) as error:  # of names that no file can have
        return str(getattr(error, "strerror", None) or error)


@contextmanager
def answering(path: Path) -> Iterator[None]:
    """Reports in one line that a bucket does not answer."""
    try:
        yield
    except Exception as error:
        if not in_bucket(path) or isinstance(error, ValueError | OSError):
            raise
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} does not answer: {reason}") from error


def remove(path: Path) -> None:
    """Removes a file, or a folder with all it holds; fine if there is none."""
    if in_bucket(path):
        place: Any = path
        place.rmtree(missing_ok=True) if place.is_dir() else place.unlink(missing_ok=True)
    elif path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def is_partial(path: Path) -> bool:
    """Returns whether this is what `atomic_write` writes, or wrote until it was killed."""
    return path.name.startswith(_PARTIAL)


def remove_partial(folder: Path, name: str | None = None) -> None:
    """Removes what killed processes left half written in a folder by `atomic_write`.

    What a process is still writing stays, for it holds a lock, which ends with the process. Where
    a file system has no locks, everything stays.

    Args:
        folder: Where they wrote.
        name: Of the file or folder that they wrote. Defaults to None: of any.
    """
    if in_bucket(folder):  # `atomic_write` writes nothing beside
        return
    for path in folder.glob(f"{_PARTIAL}*{'' if name is None else '-' + glob.escape(name)}"):
        with suppress(OSError):
            descriptor = _open(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(path)
            finally:
                os.close(descriptor)


def check_output(folder: Path, name: str = "") -> None:
    """Makes sure that `atomic_write` can write in a folder, which need not be there.

    It is made, with a partial file in it, and removed again; a bucket is not asked.

    Args:
        folder: Where the output shall be.
        name: Of the file that is written or replaced. Defaults to "": any.

    Raises:
        ValueError: One line, if nothing can be written there, or `name` is a folder.
    """
    if in_bucket(folder):
        return
    made = [place for place in (folder, *folder.parents) if not os.path.lexists(place)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.rmdir(tempfile.mkdtemp(prefix=_PARTIAL, suffix=f"-{name}", dir=folder))
        if name and (folder / name).is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as error:
        reason = f"{folder} is a file, not a folder"
        if not isinstance(error, FileExistsError):
            reason = error.strerror
        raise ValueError(
            f"expected a {'file' if name else 'folder'} to write to. "
            f"Received: {str(folder / name)[:80]!r} ({reason})"
        ) from None
    finally:
        for place in made:
            with suppress(OSError):
                place.rmdir()


@contextmanager
def atomic_write(path: Path, over_folder: bool = False) -> Iterator[Path]:
    """Yields another path to write to, and renames it to `path` if nothing failed.

    It is in a folder of its own beside `path`, which is removed with all that is left in it. Into
    a bucket a file is copied instead, where it is either whole or not there, too.

    Args:
        path: Where the file or new folder shall be. The path to write to has the same name,
            because Keras and matplotlib choose the format by the suffix.
        over_folder: Whether a new folder replaces one that is there. Defaults to False.

    Raises:
        FullDiskError: If there is no room for it.
    """
    with naming_full_disks(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if in_bucket(path):
            with tempfile.TemporaryDirectory() as folder:
                here = Path(folder) / path.name
                yield here
                _copy(here, path)
            return
        remove_partial(path.parent, path.name)
        folder, lock = _new_partial(path)
        try:
            yield folder / path.name
            if over_folder:
                _replace_folder(folder / path.name, path)
            else:
                os.replace(folder / path.name, path)
        finally:
            remove(folder)
            os.close(lock)


def _replace_folder(new: Path, folder: Path) -> None:
    """Puts one folder in the place of another, which goes where the first one was.

    No system renames over a folder with files. So the old one has another name for a moment, by
    which `restore` finds it if the process is killed then.
    """
    old = _aside(folder)
    if old.is_dir():  # of a process that was killed when the new one was in its place
        os.replace(old, new.parent / "older")
    if folder.is_dir():
        os.replace(folder, old)
    try:
        os.replace(new, folder)
    finally:
        restore(folder)
    if old.is_dir():
        os.replace(old, new.parent / "old")


def restore(folder: Path) -> None:
    """Brings a folder back that a killed process had moved aside to replace it."""
    old = _aside(folder)
    if old.is_dir() and not (folder.is_dir() and any(folder.iterdir())):
        os.replace(old, folder)


def _aside(folder: Path) -> Path:
    return folder.with_name(f"{_OLD}{folder.name}")


@contextmanager
def naming_full_disks(path: Path) -> Iterator[None]:
    """Wraps what writes a file or folder, so that a full disk is said of it.

    Libraries name another file, or none, and those of other languages have own kinds of errors.

    Raises:
        FullDiskError: If there is no room.
    """
    try:
        yield
    except FullDiskError:
        raise
    except Exception as error:
        number = getattr(error, "errno", None)
        for full in _FULL:
            if number == full or os.strerror(full) in str(error):
                raise FullDiskError(full, os.strerror(full), str(path)) from error
        raise


def keras_file(model: Any, name: str = "model.keras") -> bytes:
    """Returns the contents of a `.keras` file, or of a `.weights.h5` file.

    Written onto a disk without room, HDF5 ends the process, so that is done in memory.
    """
    file = _KerasFile()
    file.shown = name
    model.save_weights(file) if name.endswith(".weights.h5") else model.save(file)
    return file.getvalue()


class _KerasFile(io.BytesIO):
    """Memory that Keras takes for a file, because its name ends as it should."""

    shown = ""  # not `name`, beside which Keras writes HDF5 where memory is short

    def __str__(self) -> str:
        return self.shown


@contextmanager
def next_version(parent: Path) -> Iterator[tuple[Path, Path]]:
    """Yields the folder of a version that no other process writes, and where to write it first.

    Versions are folders `1`, `2` and so on of a folder of this machine.
    """
    parent.mkdir(parents=True, exist_ok=True)
    remove_partial(parent)
    with ExitStack() as writing:
        lock = os.open(parent, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            # What others are writing ends with the number of its version, too.
            versions = [path.name.rpartition("-")[2] for path in parent.iterdir()]
            last = max((int(name) for name in versions if name.isdecimal()), default=0)
            folder = parent / str(last + 1)
            beside = writing.enter_context(atomic_write(folder))
        finally:
            os.close(lock)
        yield folder, beside


def _new_partial(path: Path) -> tuple[Path, int]:
    """Makes a folder beside a path and locks it; returns the open file that holds the lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PARTIAL, suffix=f"-{path.name}", dir=path.parent))
        # Before it was locked, another process may have taken it for a dead one's and removed it.
        with suppress(FileNotFoundError):
            descriptor = _open(folder)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists():
                return folder, descriptor
            os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)


@contextmanager
def local_copy(path: Path) -> Iterator[Path]:
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
