"""Image files in one sub-folder per class: listing, splitting and checking them."""

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from zoo.data.split import stratified_split
from zoo.errors import needs_extra, printable
from zoo.files import why_no_file

SUFFIXES = (".jpg", ".jpeg", ".png")
TEST_FOLDERS = ("val", "validation", "test")


@dataclass(frozen=True)
class Files:
    """Image files and the index of each one's class."""

    paths: list[str]
    labels: list[int]

    def select(self, indices: list[int]) -> Self:
        """Returns some of the files."""
        return type(self)([self.paths[i] for i in indices], [self.labels[i] for i in indices])


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
        ValueError: If files are no JPEG or PNG images, or broken; names up to five of them.
    """
    broken = [f"{printable(path)} ({why})" for path, why in find_unreadable(files).items()]
    if broken:
        more = f" and {len(broken) - 5} more" if len(broken) > 5 else ""
        raise ValueError(f"unreadable image files: {', '.join(broken[:5])}{more}")


def find_unreadable(files: list[str]) -> dict[str, str]:
    """Returns the unreadable ones of some files, and why they are.

    A header alone does not show that a file is cut off. So the whole file is read.
    """
    with needs_extra("train"):
        from rich.progress import track

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = track(pool.map(_why_unreadable, files), "Checking images", total=len(files))
        return {path: why for path, why in zip(files, results, strict=True) if why}


def _why_unreadable(path: str) -> str:
    from zoo.data.crops import decode_small  # TensorFlow, without which the client starts

    why = why_no_file(path)  # a pipe would be waited for
    if why:
        return why
    try:
        decode_small(Path(path).read_bytes())
    except Exception as error:  # decoders raise many kinds
        return printable(error)
    return ""


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
    """Returns the files of every class, all of them readable; names those that are skipped."""
    files = Files([], [])
    for label, name in enumerate(class_names):
        found = sorted(
            str(path)
            for path in (folder / name).rglob("*")
            if path.suffix.lower() in SUFFIXES and path.name[0] != "."
        )
        if not found:
            raise ValueError(f"data.dir: no images ({', '.join(SUFFIXES)}) in {folder / name}")
        files.paths.extend(found)
        files.labels.extend([label] * len(found))
    if not skip:
        check_readable(files.paths)
        return files
    broken = find_unreadable(files.paths)
    for path, why in broken.items():
        print(f"unreadable image file left out: {printable(path)} ({why})", file=sys.stderr)
    files = files.select([i for i, path in enumerate(files.paths) if path not in broken])
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
