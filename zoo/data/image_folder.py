"""Image files in one sub-folder per class: listing, splitting and checking them."""

import hashlib
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from zoo.data.image_files import SUFFIXES, divide, name_left_out, to_jpeg_or_png
from zoo.data.split import stratified_split
from zoo.errors import needs_extra, printable, some
from zoo.files import why_no_file

TEST_FOLDERS = ("val", "validation", "test")


@dataclass(frozen=True)
class Facts:
    """Size, digest and errors of an image file.

    Attributes:
        why: Why it is unreadable; empty if it is not.
        digest: Hash of its contents.
        height, width: In pixels, as stored.
    """

    why: str = ""
    digest: bytes = b""
    height: int = 0
    width: int = 0


@dataclass(frozen=True)
class Files:
    """Image files, the index of each one's class, and what is known of each."""

    paths: list[str]
    labels: list[int]
    facts: list[Facts] = field(default_factory=list)

    def select(self, indices: list[int]) -> Self:
        """Returns some of the files."""
        return type(self)(
            [self.paths[i] for i in indices],
            [self.labels[i] for i in indices],
            [self.facts[i] for i in indices],
        )


def list_folder(
    folder: Path, test_fraction: float, seed: int, skip_unreadable: bool = False
) -> tuple[Files, Files, tuple[str, ...]]:
    """Lists the training files, the test files and the classes, and reads every file once.

    Args:
        folder: Folder with `train/CLASS/*` and `val/CLASS/*` (or `validation/`, `test/`), or
            with `CLASS/*`, of which a part is held out for the test, the same of each class.
        test_fraction: That part, between 0 and 1.
        seed: Seed of the choice.
        skip_unreadable: Whether unreadable files are named on stderr and left out, or refused.
            Defaults to False.

    Returns:
        Training files, test files, class names in alphabetical order.

    Raises:
        ValueError: If a folder is missing, has fewer than two classes, or a class is empty or has
            a name that cannot be printed. If files are unreadable and not skipped.
    """
    if not os.path.isdir(folder):  # which is False, too, for a name that cannot be one
        raise ValueError(f"data.dir: expected a folder of images. Received: {str(folder)!r}")
    if not (folder / "train").is_dir():
        classes = _class_names(folder)
        files = _list_classes(folder, classes, skip_unreadable)
        return *_split(files, test_fraction, seed), classes
    test = next((folder / name for name in TEST_FOLDERS if (folder / name).is_dir()), None)
    if test is None:
        raise ValueError(f"data.dir: {folder} has train/ but none of {', '.join(TEST_FOLDERS)}")
    classes = _class_names(folder / "train")
    if classes != _class_names(test):
        differing = sorted(set(classes) ^ set(_class_names(test)))
        raise ValueError(f"data.dir: {folder / 'train'} and {test} differ in classes: {differing}")
    train_files, test_files = (
        _list_classes(part, classes, skip_unreadable) for part in (folder / "train", test)
    )
    return train_files, test_files, classes


def check_readable(files: list[str]) -> None:
    """Reads every file once, so that none ends the work halfway.

    Raises:
        ValueError: If files are no images, or broken; names up to five of them.
    """
    _refuse_unreadable(files, _read_once(files))


def _refuse_unreadable(files: list[str], facts: list[Facts]) -> None:
    found = zip(files, facts, strict=True)
    broken = [f"{printable(path)} ({fact.why})" for path, fact in found if fact.why]
    if broken:
        raise ValueError(f"unreadable image files: {some(broken, 5)}")


def find_unreadable(files: list[str]) -> dict[str, str]:
    """Returns the unreadable ones of some files, and why they are."""
    facts = zip(files, _read_once(files), strict=True)
    return {path: fact.why for path, fact in facts if fact.why}


def _read_once(files: list[str]) -> list[Facts]:
    """Reads image files once, in parallel, and describes each.

    A header alone does not show that a file is cut off. So the whole file is read.
    """
    with needs_extra("train"):
        from rich.progress import track

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(track(pool.map(_facts, files), "Checking images", total=len(files)))


def _facts(path: str) -> Facts:
    from zoo.data.crops import (
        decode_small,
        stored_size,
    )  # TensorFlow, which the client starts without

    why = why_no_file(path)  # a pipe would be waited for
    if why:
        return Facts(why)
    try:
        content = Path(path).read_bytes()
        image = to_jpeg_or_png(content)
        decode_small(image)
        return Facts("", hashlib.blake2b(content).digest(), *stored_size(image))
    except Exception as error:  # decoders raise many kinds
        return Facts(printable(error))


def _class_names(folder: Path) -> tuple[str, ...]:
    entries = [path for path in folder.iterdir() if path.name[0] != "."]
    for path in entries:
        if path.is_symlink() and not os.path.exists(path):
            raise ValueError(
                "data.dir: expected symbolic links to folders or files. Received: "
                f"{printable(path)} ({why_no_file(path)})"
            )
    names = sorted(path.name for path in entries if path.is_dir())
    if len(names) < 2:
        raise ValueError(
            f"data.dir: expected one sub-folder for each of two or more classes in {folder}. "
            f"Received: {names}"
        )
    for name in names:
        if re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", name):
            raise ValueError(
                "data.dir: expected names of classes in UTF-8 without control characters. "
                f"Received: {name!r}"
            )
    return tuple(names)


def _list_classes(folder: Path, class_names: tuple[str, ...], skip: bool) -> Files:
    """Returns the files of every class, all of them readable; names those left out."""
    files, left_out = Files([], []), []
    for label, name in enumerate(class_names):
        found, others = divide((folder / name).rglob("*"))
        if not found:
            but = f", but {some(map(printable, others))}" if others else ""
            expected = f"no images ({', '.join(SUFFIXES)}) in {folder / name}"
            raise ValueError(f"data.dir: {expected}{but}")
        files.paths.extend(map(str, found))
        files.labels.extend([label] * len(found))
        left_out += others
    name_left_out(left_out)
    files.facts.extend(_read_once(files.paths))
    if not skip:
        _refuse_unreadable(files.paths, files.facts)
        return files
    for path, fact in zip(files.paths, files.facts, strict=True):
        if fact.why:
            print(
                f"unreadable image file left out: {printable(path)} ({fact.why})", file=sys.stderr
            )
    files = files.select([i for i, fact in enumerate(files.facts) if not fact.why])
    empty = set(range(len(class_names))) - set(files.labels)
    if empty:
        raise ValueError(f"data.dir: no readable images of class {class_names[min(empty)]}")
    return files


def _split(files: Files, test_fraction: float, seed: int) -> tuple[Files, Files]:
    try:
        train, test = stratified_split(files.labels, test_fraction, seed)
    except ValueError as error:
        raise ValueError(f"data.test_fraction={test_fraction}: {error}") from None
    return files.select(train), files.select(test)
