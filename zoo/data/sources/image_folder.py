"""Image files in one sub-folder per class."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from zoo.data.crops import convert
from zoo.data.image_files import SUFFIXES, divide, name_left_out
from zoo.data.readable import ImageFile, check_readable
from zoo.data.sources.base import DataSource, IndexedSource, Record, Split
from zoo.errors import needs_extra, printable, some
from zoo.files import why_no_file

TEST_FOLDERS = ("val", "validation", "test")


class Source(DataSource):
    """Image files in `train/CLASS/*` and `val/CLASS/*`, or in `CLASS/*` to split."""

    def open(self, image_size: int) -> Split:
        train, test, class_names = self.list_files()
        warnings = tuple(file_warnings(train, test, image_size))
        return Split(_records(train), _records(test), class_names, warnings)

    def encoded(self, record: Record) -> tf.Tensor:
        return convert(tf.io.read_file(record["image"]))

    def list_files(self) -> tuple[list[ImageFile], list[ImageFile], tuple[str, ...]]:
        """Lists training files, test files and class names (sorted), and reads every file once."""
        folder, test_fraction = Path(self.config.dir or ""), self.config.test_fraction
        if not os.path.isdir(folder):  # which is False, too, for a name that cannot be one
            raise ValueError(f"data.dir: expected a folder of images. Received: {str(folder)!r}")
        if not (folder / "train").is_dir():
            with needs_extra("train"):
                from sklearn.model_selection import train_test_split
            classes = _class_names(folder)
            files = self._list_classes(folder, classes)
            seed, labels = self.config.split_seed, [file.label for file in files]
            try:
                train, test = train_test_split(
                    files, test_size=test_fraction, stratify=labels, random_state=seed
                )
            except ValueError as error:
                raise ValueError(f"data.test_fraction={test_fraction}: {error}") from None
            return train, test, classes
        held_out = next((folder / name for name in TEST_FOLDERS if (folder / name).is_dir()), None)
        if held_out is None:
            raise ValueError(f"data.dir: {folder} has train/ but none of {', '.join(TEST_FOLDERS)}")
        classes = _class_names(folder / "train")
        if differing := sorted(set(classes) ^ set(_class_names(held_out))):
            raise ValueError(
                f"data.dir: {folder / 'train'} and {held_out} differ in classes: {differing}"
            )
        train, test = (self._list_classes(part, classes) for part in (folder / "train", held_out))
        return train, test, classes

    def _list_classes(self, folder: Path, class_names: tuple[str, ...]) -> list[ImageFile]:
        """Returns the readable files of every class, and names those left out."""
        labels: dict[str, int] = {}
        left_out: list[Path] = []
        for label, name in enumerate(class_names):
            found, others = divide((folder / name).rglob("*"))
            if not found:
                but = f", but {some(map(printable, others))}" if others else ""
                expected = f"no images ({', '.join(SUFFIXES)}) in {folder / name}"
                raise ValueError(f"data.dir: {expected}{but}")
            labels.update(dict.fromkeys(map(str, found), label))
            left_out += others
        name_left_out(left_out)
        readable = []
        for file in check_readable([*labels], self.config.unreadable == "skip"):
            if file.why:
                line = f"unreadable image file left out: {printable(file.path)} ({file.why})"
                print(line, file=sys.stderr)
            else:
                readable.append(file._replace(label=labels[file.path]))
        empty = set(labels.values()) - {file.label for file in readable}
        if empty:
            raise ValueError(f"data.dir: no readable images of class {class_names[min(empty)]}")
        return readable


def _records(files: list[ImageFile]) -> IndexedSource:
    paths = np.asarray([os.fsencode(file.path) for file in files])
    return IndexedSource(paths, np.asarray([file.label for file in files]), paths)


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
