"""Image files in one sub-folder per class."""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import tensorflow as tf

from zoo.data.crops import convert
from zoo.data.image_files import SUFFIXES, divide, name_left_out
from zoo.data.labels import stratified_split
from zoo.data.readable import ImageFile, read_files, refuse_unreadable
from zoo.data.records import IndexedSource, Record
from zoo.data.sources.base import DataSource, Split
from zoo.errors import printable, some
from zoo.files import why_no_file

TEST_FOLDERS = ("val", "validation", "test")


@dataclass(frozen=True)
class Files:
    """Image files and the indices of their classes."""

    files: list[ImageFile]
    labels: list[int]

    @property
    def paths(self) -> list[str]:
        """Paths of the files."""
        return [file.path for file in self.files]

    def select(self, indices: Sequence[int]) -> Self:
        """Returns some of the files."""
        return type(self)([self.files[i] for i in indices], [self.labels[i] for i in indices])


class Source(DataSource):
    """Image files in `train/CLASS/*` and `val/CLASS/*`, or in `CLASS/*` to split."""

    def open(self, image_size: int) -> Split:
        train, test, class_names = list_folder(
            Path(self.config.dir or ""),
            self.config.test_fraction,
            self.config.split_seed,
            self.config.unreadable == "skip",
        )
        warnings = file_warnings(train.files, test.files, image_size)
        return Split(_records(train), _records(test), class_names, tuple(warnings))

    def encoded(self, record: Record) -> tf.Tensor:
        return convert(tf.io.read_file(record["image"]))


def _records(files: Files) -> IndexedSource:
    paths = np.asarray(list(map(os.fsencode, files.paths)))
    return IndexedSource(paths, np.asarray(files.labels), paths)


def list_folder(
    folder: Path, test_fraction: float, seed: int, skip_unreadable: bool = False
) -> tuple[Files, Files, tuple[str, ...]]:
    """Lists training files, test files and classes, and reads every file once.

    Args:
        folder: Folder with `train/CLASS/*` and `val/CLASS/*` (or `validation/`, `test/`), or
            with `CLASS/*`, of which a stratified part is held out.
        test_fraction: Held-out fraction, between 0 and 1.
        seed: Seed of the split.
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
        try:
            train, test = stratified_split(files.labels, test_fraction, seed)
        except ValueError as error:
            raise ValueError(f"data.test_fraction={test_fraction}: {error}") from None
        return files.select(train), files.select(test), classes
    held_out = next((folder / name for name in TEST_FOLDERS if (folder / name).is_dir()), None)
    if held_out is None:
        raise ValueError(f"data.dir: {folder} has train/ but none of {', '.join(TEST_FOLDERS)}")
    classes = _class_names(folder / "train")
    if differing := sorted(set(classes) ^ set(_class_names(held_out))):
        raise ValueError(
            f"data.dir: {folder / 'train'} and {held_out} differ in classes: {differing}"
        )
    train_files, test_files = (
        _list_classes(part, classes, skip_unreadable) for part in (folder / "train", held_out)
    )
    return train_files, test_files, classes


def file_warnings(
    train: Sequence[ImageFile], test: Sequence[ImageFile], image_size: int
) -> list[str]:
    """Returns a line on test images that are in training, too, and one on images that are small."""
    lines = []
    known = {file.digest: file.path for file in reversed(train)}
    twice = [
        f"{printable(file.path)} = {printable(known[file.digest])}"
        for file in test
        if file.digest in known
    ]
    if twice:
        lines.append(
            f"{len(twice)} of {len(test)} test images are in training, too, which makes "
            f"accuracy look better than it is: {some(twice)}"
        )
    small = [
        f"{printable(file.path)} ({file.width} x {file.height})"
        for file in train
        if min(file.width, file.height) < image_size
    ]
    if small:
        lines.append(
            f"{len(small)} of {len(train)} training images are smaller than the "
            f"{image_size} pixels that the network gets, and are enlarged (model.image_size): "
            f"{some(small)}"
        )
    return lines


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
    """Returns the readable files of every class, and names those left out."""
    paths: list[str] = []
    labels: list[int] = []
    left_out: list[Path] = []
    for label, name in enumerate(class_names):
        found, others = divide((folder / name).rglob("*"))
        if not found:
            but = f", but {some(map(printable, others))}" if others else ""
            expected = f"no images ({', '.join(SUFFIXES)}) in {folder / name}"
            raise ValueError(f"data.dir: {expected}{but}")
        paths.extend(map(str, found))
        labels.extend([label] * len(found))
        left_out += others
    name_left_out(left_out)
    files = Files(read_files(paths), labels)
    if not skip:
        refuse_unreadable(files.files)
        return files
    for file in files.files:
        if file.why:
            line = f"unreadable image file left out: {printable(file.path)} ({file.why})"
            print(line, file=sys.stderr)
    files = files.select([i for i, file in enumerate(files.files) if not file.why])
    empty = set(range(len(class_names))) - set(files.labels)
    if empty:
        raise ValueError(f"data.dir: no readable images of class {class_names[min(empty)]}")
    return files
