"""Atomic writing of files and folders, on this machine or in a bucket."""

import errno
import fcntl
import glob
import io
import json
import os
import re
import reprlib
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from zoo.errors import needs_extra, printable, refusal, require, some

BUCKETS = ("gs://",)
# Begins a pointer of Git LFS; as in `lambda_keras.weights.hub`, whose import would import Keras.
POINTER = b"version https://git-lfs.github.com/spec/"
_PARTIAL, _OLD = ".partial-", ".old-"
# Hidden names, and names that NAS, systems, archive programs and Python leave among files.
_LITTER = re.compile(
    r"\..*|~\$.*|__macosx|__pycache__|@(eadir|__thumb|tmp|recycle|recently-snapshot)|lost\+found"
    r"|#(recycle|snapshot)|\$recycle\.bin|recycler|found\.\d+|system volume information|icon\r"
    r"|(eh)?thumbs\.db|desktop\.ini",
    re.IGNORECASE | re.DOTALL,
)
TRIALS = 20  # of `check_output`, while other processes remove the folder
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # disk full, quota exceeded, file too large


class FullDiskError(OSError):
    """No room for a file: error number, reason, and the name that the file should have had."""


def location(path: Any) -> Any:
    """Returns the `pathlib.Path` of a file or folder, or the `etils.epath.Path` in a bucket."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise ValueError(f"expected a path. Received: {reprlib.repr(path)}")
    text = os.fspath(path)
    if "://" not in text:
        text = os.path.expanduser(text)  # shells do not in `--output_dir=~/runs` and in YAML
        try:
            text.encode()
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                os.lstat(text)  # raises on circular links
        except (ValueError, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"expected a path. Received: {text[:80]!r} ({reason})") from None
        return Path(text)
    if not text.startswith(BUCKETS) or text.partition("://")[2][:1] in ("", "/"):
        raise refusal(f"expected a path, or one in a bucket, {BUCKETS[0]}BUCKET/FOLDER", repr(text))
    with needs_extra("train"):
        from etils import epath
    return epath.Path(text)


def in_bucket(path: Any) -> bool:
    """Returns whether a path is in a bucket."""
    return os.fspath(path).startswith(BUCKETS)


def why_no_file(path: Any) -> str:
    """Returns the reason why a file of this machine cannot be read, or "" if it can.

    Pipes, devices and sockets are no files: reading them may never end.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return "not a regular file"
        with open(path, "rb") as file:
            return why_pointer(file.read(len(POINTER)))
    except (OSError, ValueError) as error:  # impossible names
        return str(getattr(error, "strerror", None) or error)


def why_pointer(content: bytes) -> str:
    """Returns an instruction if the contents are a Git LFS pointer, else an empty string."""
    return "a Git LFS pointer: run git lfs pull" if content.startswith(POINTER) else ""


def find_pointer(folder: Path) -> str:
    """Describes the first Git LFS pointer at any depth of a folder; "" if there is none."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            with file.open("rb") as opened:
                if why := why_pointer(opened.read(len(POINTER))):
                    return f"{file.name} is {why}"
    return ""


def is_litter(name: str) -> bool:
    """Returns whether a name is hidden, or one that systems leave among files."""
    return _LITTER.fullmatch(name) is not None


def expand(pattern: str) -> list[str]:
    """Expands a pattern of files, local or in a bucket, into sorted paths without litter.

    Brackets in the names of existing files and folders are literal, also in folders before a
    pattern. `**` matches folders of any depth. Folders are returned only if no file matches. Files
    whose suffix differs only in upper and lower case are left out and named on stderr.
    """
    exists: Any = os.path.lexists
    find: Any = partial(glob.glob, recursive=True)
    folders_of: Any = lambda paths: set(filter(os.path.isdir, paths))  # noqa: E731
    if in_bucket(pattern):
        gfile = _gfile()
        exists, find, folders_of = gfile.exists, gfile.glob, _folders_of
    if not glob.has_magic(pattern) or exists(pattern):
        return [pattern] if exists(pattern) else []
    parts = re.split("(/+)", pattern)
    first = next(end for end, part in enumerate(parts) if glob.has_magic(part))
    ends = (end for end in range(len(parts), first, -1) if exists("".join(parts[:end])))
    end = next(ends, first)
    root, rest = "".join(parts[:end]), "".join(parts[end:])
    stem, dot, suffix = rest.rpartition(".")
    stem, suffix = (stem, dot + suffix) if dot and suffix.isalnum() else (rest, "")
    any_case = re.sub("[a-zA-Z]", lambda c: f"[{c[0].lower()}{c[0].upper()}]", suffix)

    def matching(stem: str) -> list[str]:
        paths = sorted(find(glob.escape(root) + stem + any_case))
        return [path for path in paths if not any(map(is_litter, path[len(root) :].split("/")))]

    every = matching(stem) or matching(stem.replace("[", "[[]"))
    matches = [path for path in every if path.endswith(suffix)]
    if others := [path for path in every if not path.endswith(suffix)]:
        print(
            f"{len(others)} files left out, which match {printable(pattern)} but for upper and "
            f"lower case: {some(map(printable, others))}; "
            f"{printable(root + stem + any_case)!r} matches all",
            file=sys.stderr,
        )
    folders = folders_of(matches)
    return [path for path in matches if path not in folders] or matches


def _gfile() -> Any:
    """Returns TensorFlow's client of buckets."""
    with needs_extra("train"):
        import tensorflow as tf
    return tf.io.gfile


def _folders_of(paths: list[str]) -> set[str]:
    """Returns the folders among paths in a bucket, with one listing per parent folder."""
    parents = {path.rpartition("/")[0] for path in paths}
    names = {parent: _gfile().listdir(parent) for parent in parents}
    return {
        f"{parent}/{name.rstrip('/')}"
        for parent in parents
        for name in names[parent]
        if name.endswith("/")
    }


@contextmanager
def answering(path: Path) -> Iterator[None]:
    """Turns errors of a bucket into errors of one line."""
    try:
        yield
    except Exception as error:
        if not in_bucket(path) or isinstance(error, ValueError | OSError):
            raise
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} does not answer: {reason}") from error


def remove(path: Path) -> None:
    """Removes a file or folder, if there is one."""
    if in_bucket(path):
        place: Any = path
        try:
            place.unlink()  # for a file, one request is enough
        except FileNotFoundError:
            place.rmtree(missing_ok=True)
    elif path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def is_partial(path: Path) -> bool:
    """Returns whether `atomic_write` has not finished this file or folder."""
    return path.name.startswith(_PARTIAL)


def remove_partial(folder: Path, name: str | None = None) -> None:
    """Removes unfinished files of killed processes from a folder, with one name or with any.

    Running processes hold locks on their files. On a file system without locks, nothing is removed.
    """
    if in_bucket(folder):  # `atomic_write` leaves nothing unfinished there
        return
    for path in folder.glob(f"{_PARTIAL}*{'' if name is None else '-' + glob.escape(name)}"):
        with suppress(OSError), _locked(path, must=True):
            remove(path)


def check_no_pattern(path: Path | str, setting: str, reader: str) -> None:
    """Refuses a path that its reader would take for a pattern."""
    expected = f"{setting}: expected a path without *, ? and [, which {reader} for a pattern"
    require(not glob.has_magic(str(path)), expected, repr(str(path)))


def check_output(folder: Path, name: str = "") -> None:
    """Checks by a trial that a file, or "" for any, can be written in a new or existing folder.

    A new folder is tried within a hidden one: other hosts of the same run never see it.
    """
    if in_bucket(folder):
        return
    for left in reversed(range(TRIALS)):
        there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
        try:
            with _new_partial(there / (name or "trial")) as trial:
                (trial / folder.relative_to(there)).mkdir(parents=True, exist_ok=True)
            if name and (folder / name).is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            return
        except OSError as error:
            if left and isinstance(error, FileNotFoundError):
                continue  # removed by another process, whose command failed
            reason = error.strerror if there.is_dir() else f"{there} is a file, not a folder"
            expected = f"expected a {'file' if name else 'folder'} to write to"
            raise refusal(expected, f"{str(folder / name)[:80]!r} ({reason})") from None


@contextmanager
def new_folders(folder: Path) -> Iterator[None]:
    """Creates a folder and its parents; at the end removes the new ones that are still empty."""
    made = [place for place in (folder, *folder.parents) if not os.path.lexists(place)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        for place in made:
            with suppress(OSError), _locked_now(place):  # not empty, or held by another process
                place.rmdir()


@contextmanager
def atomic_write(path: Path, over_folder: bool = False) -> Iterator[Path]:
    """Yields a temporary path to write to, and renames it to `path` if nothing failed.

    The temporary path has the same name, since Keras and matplotlib choose the format by suffix,
    in a temporary folder next to `path`. Bucket uploads are atomic: a file is copied there, a
    folder file by file, the deepest first, then by name, so that a SavedModel's `saved_model.pb`
    comes last. With `over_folder`, a new folder replaces an existing local one.
    """
    with naming_full_disks(path):
        if in_bucket(path):
            with tempfile.TemporaryDirectory() as folder:
                here = Path(folder) / path.name
                yield here
                files = [here] if here.is_file() else filter(Path.is_file, here.rglob("*"))
                for file in sorted(files, key=lambda file: (-len(file.parts), file)):
                    target = path / file.relative_to(here)
                    _gfile().copy(str(file), str(target), overwrite=True)
            return
        with new_folders(path.parent):
            remove_partial(path.parent, path.name)
            with _new_partial(path) as folder:
                yield folder / path.name
                if over_folder:
                    _replace_folder(folder / path.name, path)
                else:
                    _rename(folder / path.name, path)


@contextmanager
def atomic_files(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder, and moves its files into `folder` if nothing failed.

    Other files that are there stay.
    """
    try:
        if in_bucket(folder):
            with atomic_write(folder) as here:
                here.mkdir()
                yield here
            return
        with new_folders(folder), _new_partial(folder / "files") as here:
            yield here
            for file in sorted(here.iterdir()):
                os.replace(file, folder / file.name)
    except FullDiskError as error:  # of a file in the temporary folder
        raise FullDiskError(error.errno, error.strerror, str(folder)) from error


def _rename(new: Path, path: Path) -> None:
    """Renames a file or folder; refuses a folder with files that another process has made."""
    try:
        os.replace(new, path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise refusal("expected a new folder", f"{str(path)!r}, written meanwhile") from None


def _replace_folder(new: Path, folder: Path) -> None:
    """Swaps a folder with a new one.

    No system renames over a folder with files. So the old one is moved aside first; if the process
    is killed then, `restore` brings it back.
    """
    old = restore(folder)
    remove(old)  # left by a process that was killed after the swap
    if folder.is_dir():
        os.replace(folder, old)
    try:
        os.replace(new, folder)
    finally:
        restore(folder)
    remove(old)


def restore(folder: Path) -> Path:
    """Brings back a folder that a killed process moved aside, and returns where it was."""
    old = folder.with_name(f"{_OLD}{folder.name}")
    if old.is_dir() and not (folder.is_dir() and any(folder.iterdir())):
        os.replace(old, folder)
    return old


@contextmanager
def naming_full_disks(path: Path) -> Iterator[None]:
    """Raises `FullDiskError` with this path if the disk is full in the `with` block.

    Errors of libraries name other files or none, and compiled ones have their own types.
    """
    try:
        yield
    except FullDiskError:
        raise
    except Exception as error:
        for full in _FULL:
            if getattr(error, "errno", None) == full or os.strerror(full) in str(error):
                raise FullDiskError(full, os.strerror(full), str(path)) from error
        raise


class MemoryFile(io.BytesIO):
    """A file in memory that Keras takes for one on disk."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    # Keras checks the suffix of this, and writes HDF5 next to it if memory is short.
    def __str__(self) -> str:
        return self.path


def keras_file(model: Any, name: str = "model.keras") -> bytes:
    """Returns the contents of a `.keras` or `.weights.h5` file, written in memory.

    On a full disk, HDF5 ends the process.
    """
    file = MemoryFile(name)
    model.save_weights(file) if name.endswith(".weights.h5") else model.save(file)
    return file.getvalue()


def write_json(path: Path, content: Any, indent: int | None = None) -> None:
    """Writes a JSON file in UTF-8, whole or not at all; refuses numbers that are not finite."""
    with atomic_write(path) as temporary:
        text = json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False)
        # `backslashreplace` turns bytes of names that are not UTF-8 into valid JSON escapes.
        temporary.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


@contextmanager
def next_version(parent: Path) -> Iterator[tuple[Path, Path]]:
    """Yields the folder of the next version, and the temporary path of `atomic_write` for it.

    Versions are folders `1`, `2` and so on. Every process gets its own; in a bucket, the second
    one of two that end at the same time fails.
    """
    with ExitStack() as writing:
        if not in_bucket(parent):
            writing.enter_context(new_folders(parent))
        remove_partial(parent)
        with nullcontext() if in_bucket(parent) else _locked(parent):
            # Names of unfinished versions end with their numbers, too.
            paths = parent.iterdir() if parent.is_dir() else ()
            versions = [path.name.rpartition("-")[2] for path in paths]
            last = max((int(name) for name in versions if name.isdecimal()), default=0)
            folder = parent / str(last + 1)
            temporary = writing.enter_context(atomic_write(folder))
        yield folder, temporary
        if in_bucket(folder) and folder.exists():
            raise ValueError(f"expected a new version. Received: {folder}, written meanwhile")


@contextmanager
def _new_partial(path: Path) -> Iterator[Path]:
    """Creates a locked folder next to a path for the `with` block."""
    folder = Path(tempfile.mkdtemp(prefix=_PARTIAL, suffix=f"-{path.name}", dir=path.parent))
    with ExitStack() as locked:
        # Before it is locked, another process may remove it as a killed process' folder.
        with suppress(FileNotFoundError):
            locked.enter_context(_locked(folder))
        if not folder.exists():
            folder = locked.enter_context(_new_partial(path))
        try:
            yield folder
        finally:
            remove(folder)


@contextmanager
def _locked(path: Path, must: bool = False) -> Iterator[None]:
    """Waits for the lock of a file or folder, or raises `OSError` if it `must` have it now.

    File systems without locks need none otherwise.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        if must:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Locks a new or existing folder; raises `BlockingIOError` while another process does.

    The lock ends with its process. In a bucket, and on a file system without locks, there is none.
    """
    if in_bucket(folder):
        yield
        return
    with ExitStack() as holding:
        while True:
            try:
                holding.enter_context(new_folders(folder))
                descriptor = holding.enter_context(_locked_now(folder))
                if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
                    break
            except FileNotFoundError:  # another process removed the empty folder
                pass
        yield


@contextmanager
def _locked_now(folder: Path) -> Iterator[int]:
    """Locks a folder, or raises `BlockingIOError`; file systems without locks need none."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if isinstance(error, BlockingIOError):
                raise
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def local_copy(path: Path) -> Iterator[Path]:
    """Yields a local path of a file; files in a bucket are copied to a temporary folder."""
    if not in_bucket(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / path.name
        remote: Any = path
        remote.copy(here, overwrite=True)
        yield here
