"""Image files in one sub-folder per class."""

import hashlib
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from zoo.data.image_files import (
    BESIDE,
    HIDDEN,
    NESTED,
    SUFFIXES,
    Notes,
    find_images,
    is_folder,
    note,
    print_notes,
)
from zoo.data.readable import ImageFile, check_readable
from zoo.data.sources.base import DataSource, IndexedSource, Noted, Split
from zoo.data.sources.stored import FilePath
from zoo.errors import errors_of, needs_extra, printable, refusal, require, some
from zoo.files import is_litter, why_no_file

SPLITS = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation", "dev", "development"),
    "test": ("test", "testing"),
}
_ROLES = {name: role for role, names in SPLITS.items() for name in names}
# Parts of names without a meaning of their own, as in `training_set` and `val2017`.
_FILLERS = re.compile(r"[\W\d_]+|data|sets?|split|images?|imgs?|seg|folder")
FLAT = "folders of splits left out, which have images but no folders of classes"
TAKEN = "folders taken for classes in spite of their names, as they have no sub-folders"

Listed = tuple[list[ImageFile], list[ImageFile], tuple[str, ...]]


class ImageFolder(DataSource):
    """Image files in folders of splits, as `train/CLASS/*`, or in `CLASS/*` to split."""

    stored: ClassVar = FilePath()

    def open(self, image_size: int) -> Split:
        train, test, class_names = self.list_files()
        warnings = (*name_warnings(class_names), *file_warnings(train, test, image_size))
        index = self.check_same(self._contents(train, test))
        return Split(_records(train), _records(test), class_names, warnings, index)

    def _contents(self, train: list[ImageFile], test: list[ImageFile]) -> Noted:
        names, contents = (hashlib.blake2b(digest_size=16) for _ in range(2))
        above = len(str(Path(self.config.dir or "") / "x")) - 1
        for file in (*train, *test):
            names.update(os.fsencode(f"{file.path[above:]}\0{file.label}\0"))
            contents.update(file.digest)
        return {
            "training images": len(train),
            "test images": len(test),
            "names": names.hexdigest(),
            "contents": contents.hexdigest(),
        }

    def list_files(self) -> Listed:
        """Lists training files, test files and class names (sorted), and reads every file once.

        If both are the same folder of a split, as in evaluation, only its files are read.
        """
        root = Path(self.config.dir or "")
        if not os.path.isdir(root):  # also False for invalid names
            expected = "data.dir: expected a folder of images of this machine"
            raise refusal(expected, repr(self.config.dir))
        notes = Notes()
        folder = _unwrap(root)
        splits = _find_splits(folder, notes)
        if splits.keys() == {"train"}:
            folder, splits = splits["train"], {}
        listed = (self._listed if splits else self._divided)(folder, splits, notes)
        print_notes(notes)
        return listed

    def _listed(self, folder: Path, splits: dict[str, Path], notes: Notes) -> Listed:
        """Lists the files of folders of splits."""
        train, test = (self._choose(folder, splits, f"{part}_split") for part in ("train", "test"))
        classes = _class_names(train, notes)
        if differing := sorted({*classes} ^ {*_class_names(test, notes)}):
            raise ValueError(f"data.dir: {train} and {test} differ in classes: {differing}")
        uses = {train: "training", test: "test" if train == test else "validation"}
        files = {part: self._list_classes(part, classes, notes) for part in uses}
        lines = [
            f"{use} images in {part.relative_to(folder)} ({len(files[part]):,})"
            for part, use in uses.items()
        ]
        if train != test and (unseen := splits.get("test", test)) not in uses:
            lines.append(
                f"{unseen.relative_to(folder)} ({len(find_images([unseen], {})):,}) stays unseen "
                "until python -m zoo.evaluate --run RUN --data.test_split test"
            )
        print(printable(f"{folder}: {', '.join(lines)}"), file=sys.stderr)
        return files[train], files[test], classes

    def _choose(self, folder: Path, splits: dict[str, Path], setting: str) -> Path:
        wanted: str = getattr(self.config, setting)
        wanted = _ROLES.get(wanted, wanted)
        if wanted == "validation" and wanted not in splits:
            wanted = "test"
        names = " or ".join(SPLITS.get(wanted, [wanted]))
        expected = f"data.dir: expected a folder {names} in {folder} (data.{setting})"
        require(wanted in splits, expected, ", ".join(map(str, splits.values())))
        return splits[wanted]

    def _divided(self, folder: Path, _: dict[str, Path], notes: Notes) -> Listed:
        """Lists the files of folders of classes, and holds out a part of them."""
        with needs_extra("train"):
            from sklearn.model_selection import train_test_split
        config, classes = self.config, _class_names(folder, notes)
        files = self._list_classes(folder, classes, notes)
        if config.test_split == "all":
            return files, files, classes
        seed, labels = config.split_seed, [file.label for file in files]
        counts = np.bincount(labels, minlength=len(classes))
        expected = f"data.dir: expected two images or more of every class in {folder}, one of them"
        received = f"one of {printable(classes[counts.argmin()])}"
        require(counts.min() >= 2, f"{expected} to hold out", received)
        with errors_of(f"data.test_fraction={config.test_fraction}"):
            train, test = train_test_split(
                files, test_size=config.test_fraction, stratify=labels, random_state=seed
            )
        line = f"{folder}: {len(test):,} of {len(files):,} images are held out (data.test_fraction)"
        if config.train_split == config.test_split:
            if self.trained is not None:
                self._check_parts(train, test, self.trained)
            train = test = train if config.test_split == "train" else test
            line += f"; test images are {len(test):,} of them, or all with --data.test_split all"
            if self.trained is None:
                line += "; whether the network was trained on them is not known"
        print(printable(line), file=sys.stderr)
        return train, test, classes

    def _check_parts(self, train: list[ImageFile], test: list[ImageFile], trained: Noted) -> None:
        """Checks that the parts are the training and test images of a run, in the same order."""
        contents = dict(self._contents(train, test))
        if "contents" in trained:  # names may differ
            del contents["names"]
        else:
            print(
                "warning: the run has no digest of its images: whether the held-out ones are those "
                "of its training is checked by their number alone",
                file=sys.stderr,
            )
            contents = {name: value for name, value in contents.items() if name in trained}
        self.compare(contents, trained, _other_parts)

    def _list_classes(
        self, folder: Path, class_names: tuple[str, ...], notes: Notes
    ) -> list[ImageFile]:
        """Returns the readable files of every class."""
        labels: dict[str, int] = {}
        for label, name in enumerate(class_names):
            place, class_notes = folder / name, Notes()
            roles = {_role(path): path for path in _subfolders(place)}
            require(
                len(roles.keys() & SPLITS) <= 1,
                "data.dir: expected folders of splits above those of classes, as train/CLASS",
                ", ".join(map(printable, roles.values())),
            )
            images = find_images([place], class_notes)
            if not images:
                others = sorted(path for paths in class_notes.values() for path in paths)
                but = f", but {some(map(printable, others))}" if others else ""
                raise ValueError(f"data.dir: no images ({', '.join(SUFFIXES)}) in {place}{but}")
            labels.update(dict.fromkeys(map(str, images), label))
            for kind, paths in class_notes.items():
                note(notes, kind, *paths)
            note(notes, NESTED, *(path for path in images if path.parent != place))
        readable = []
        for file in check_readable([*labels], self.config.unreadable == "skip", remember=True):
            if file.why:
                line = f"unreadable image file left out: {printable(file.path)} ({file.why})"
                print(line, file=sys.stderr)
            else:
                readable.append(file._replace(label=labels[file.path]))
        empty = set(labels.values()) - {file.label for file in readable}
        if empty:
            raise ValueError(f"data.dir: no readable images of class {class_names[min(empty)]}")
        return readable


def _other_parts(folder: str | None, what: str) -> ValueError:
    """Creates the error about a folder whose held-out set would differ from the run's."""
    return ValueError(
        "data.dir: expected the images of the training, since of other images others are held out; "
        f"--data.test_split all takes all images. Received: {str(folder)!r}, with other {what}"
    )


def _records(files: list[ImageFile]) -> IndexedSource:
    paths = np.asarray([os.fsencode(file.path) for file in files])
    return IndexedSource(paths, np.asarray([file.label for file in files]), paths)


def file_warnings(
    train: Sequence[ImageFile], test: Sequence[ImageFile], image_size: int
) -> list[str]:
    """Returns lines on images in two classes, or in training and test, and on small ones."""
    first: dict[bytes, ImageFile] = {}
    known = {file.digest: file.path for file in reversed(train)}
    differing = [
        f"{file.path} = {other.path}"
        for file in (*train, *test)
        if (other := first.setdefault(file.digest, file)).label != file.label
    ]
    twice = [f"{file.path} = {known[file.digest]}" for file in test if file.digest in known]
    small = [
        f"{file.path} ({file.width} x {file.height})"
        for file in train
        if min(file.width, file.height) < image_size
    ]
    lines = {
        f"{len(differing)} images are in two classes": differing,
        f"{len(twice)} of {len(test)} test images are in training, too, which makes accuracy look "
        "better than it is": twice,
        f"{len(small)} of {len(train)} training images are smaller than the {image_size} pixels "
        "that the network gets, and are enlarged (model.image_size)": small,
    }
    return [f"{line}: {some(map(printable, names))}" for line, names in lines.items() if names]


def name_warnings(names: Sequence[str]) -> list[str]:
    """Returns a line on names that are hard to tell apart, and one on numbers sorted as text."""
    lines, alike = [], {}
    for name in names:
        key = re.sub(r"[\s_-]+", "", unicodedata.normalize("NFKC", name).casefold())
        alike.setdefault(key or name, []).append(repr(name))
    if same := [" and ".join(group) for group in alike.values() if len(group) > 1]:
        lines.append(f"classes whose names differ in case or spaces alone: {some(same)}")
    parts = {name: re.split(r"(\d+)", name) for name in names}
    natural = sorted(names, key=lambda name: [int(x) if x.isdecimal() else x for x in parts[name]])
    numbers = map(str, range(len(names))) if all(map(str.isdecimal, names)) else natural
    places = enumerate(zip(names, numbers, strict=True))
    if place := next(((i, *pair) for i, pair in places if pair[0] != pair[1]), None):
        lines.append("classes are sorted as text: output {} is class {!r}, not {!r}".format(*place))
    return lines


def _role(folder: Path) -> str:
    return _ROLES.get(_FILLERS.sub("", folder.name.lower()), "")


def _subfolders(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        return sorted(
            folder / entry.name
            for entry in entries
            if not is_litter(entry.name) and is_folder(entry)
        )


def _unwrap(folder: Path) -> Path:
    """Descends into sub-folders as long as there is only one, as archives often have it."""
    while len(inner := _subfolders(folder)) == 1 and _subfolders(inner[0]):
        if _role(inner[0]) in {"validation", "test"} - {_role(folder)}:
            break
        folder = inner[0]
    return folder


def _find_splits(folder: Path, notes: Notes) -> dict[str, Path]:
    """Finds folders of splits by their names; none if the sub-folders are classes."""
    roles: dict[str, list[Path]] = {}
    for path in _subfolders(folder):
        roles.setdefault(_role(path), []).append(path)
    others = roles.pop("", [])
    split_folders = [path for paths in roles.values() for path in paths]
    flat = [path for path in split_folders if not _subfolders(path)]
    names = ", ".join(printable(path.name) for path in split_folders)
    if len(flat) == len(split_folders):
        if len(roles) > 1:
            expected = f"data.dir: expected folders of classes in {names} of {folder}"
            raise refusal(expected, f"none{_by_table(folder)}; if these are classes, rename them")
        note(notes, TAKEN, *split_folders)
        return {}
    require(
        not find_images(others, {}),
        f"data.dir: expected in {folder} either folders of splits or folders of classes",
        f"{names}, which have folders of their own, next to "
        f"{some(printable(path.name) for path in others)}; rename or move one or the other",
    )
    for role, paths in roles.items():
        received = f"{', '.join(map(printable, paths))}; rename or move all but one"
        require(len(paths) <= 1, f"data.dir: expected one folder of {role} images", received)
    for path in flat:
        if _role(path) == "test" and find_images([path], {}):
            note(notes, FLAT, *roles.pop("test"))
    _note_files(folder, notes)
    return {role: _unwrap(paths[0]) for role, paths in roles.items()}


def _note_files(folder: Path, notes: Notes) -> None:
    for path in folder.iterdir():
        if is_litter(path.name):
            note(notes, HIDDEN, path)
        elif path.suffix.lower() in SUFFIXES and not path.is_dir():
            note(notes, BESIDE, path)


def _by_table(folder: Path) -> str:
    """Returns a hint on folders of classes if there is a table, such as Kaggle's `train.csv`."""
    tables = [*sorted(folder.glob("*.csv")), *sorted(folder.parent.glob("*.csv"))]
    if not tables:
        return ""
    sort = 'the lines of "Classes in a table" in docs/training.md sort files into folders'
    return f"; classes are folders, and no table is read ({printable(tables[0].name)}): {sort}"


def _class_names(folder: Path, notes: Notes) -> tuple[str, ...]:
    _note_files(folder, notes)
    for path in folder.iterdir():
        if path.is_symlink() and not os.path.exists(path):
            expected = "data.dir: expected symbolic links to folders or files"
            raise refusal(expected, f"{printable(path)} ({why_no_file(path)})")
    names = [path.name for path in _subfolders(folder)]
    if len(names) < 2:
        expected = f"data.dir: expected one sub-folder for each of two or more classes in {folder}"
        raise refusal(expected, f"{names}{_by_table(folder)}")
    for name in names:
        expected = "data.dir: expected names of classes in UTF-8 without control characters"
        require(not re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", name), expected, repr(name))
    return tuple(names)
