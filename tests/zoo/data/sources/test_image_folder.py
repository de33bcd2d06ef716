"""Listing, splitting and checking image files."""

import contextlib
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from zoo.config import DataConfig
from zoo.data.sources.image_folder import ImageFolder, name_warnings
from zoo.files import write_json


def list_folder(folder, test_fraction, seed, unreadable="refuse", **settings):
    settings |= {"test_fraction": test_fraction, "split_seed": seed, "unreadable": unreadable}
    return ImageFolder(DataConfig(source="image_folder", dir=str(folder), **settings)).list_files()


@pytest.fixture
def tree(tmp_path):
    """Makes folders of small images: `a/b` has a/b/cat and a/b/dog, `a=flat` images alone."""

    def make(names: str) -> Path:
        for number, name in enumerate(names.split()):
            place, _, flat = name.partition("=")
            for label in ("",) if flat else ("cat", "dog"):
                for i in range(2 if re.search("val|test|dev", place.lower()) else 8):
                    pixels = np.full((4, 4, 3), [number, len(label), i], np.uint8)
                    path = tmp_path / "data" / place / label / f"{i}.png"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(tf.io.encode_png(pixels).numpy())
        return tmp_path / "data"

    return make


def test_every_class_has_its_part_of_the_held_out_images(tmp_path):
    """Whatever the seed, and however few images a class has."""
    for label, count in {"many": 24, "some": 12, "few": 4}.items():
        for i in range(count):
            pixels = np.full((2, 2, 3), [len(label), i, 0], np.uint8)
            path = tmp_path / label / f"{i}.png"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(tf.io.encode_png(pixels).numpy())
    splits = set()
    for seed in range(5):
        train, test, classes = list_folder(tmp_path, 0.25, seed)
        counts = np.bincount([file.label for file in test])
        assert dict(zip(classes, counts.tolist(), strict=True)) == {"few": 1, "many": 6, "some": 3}
        assert len({*train, *test}) == len(train) + 10 == 40
        assert all(f"/{classes[file.label]}/" in file.path for file in train + test)
        assert list_folder(tmp_path, 0.25, seed) == (train, test, classes)
        splits.add(frozenset(file.path for file in test))
    assert len(splits) == 5


# Folders: training and held-out images, and a part of the one line about them.
FOUND = {
    "Training Testing": (16, 4, "training images in Training (16), validation images in T"),
    "Train Valid Test": (16, 4, "validation images in Valid (4), Test (4) stays unseen until"),
    "train valid": (16, 4, "validation images in valid (4)\n"),
    "train dev": (16, 4, "validation images in dev (4)\n"),
    "TRAIN VALIDATION TESTING": (16, 4, "validation images in VALIDATION (4), TESTING (4) stays"),
    "training_set test_set": (16, 4, "validation images in test_set (4)\n"),
    "images_train val2017": (16, 4, "validation images in val2017 (4)\n"),
    "pets/train pets/val __MACOSX/pets": (16, 4, "pets: training images in train (16), "),
    "seg_train/seg_train seg_test/seg_test": (16, 4, "training images in seg_train/seg_train (16)"),
    "train": (12, 4, "train: 4 of 16 images are held out (data.test_fraction)\n"),
    "data/pets": (12, 4, "data/pets: 4 of 16 images are held out"),
    "train test=flat": (12, 4, "data/train: 4 of 16 images are held out"),
    "train=flat bus=flat": (12, 4, "1 folders taken for classes in spite of their"),
    "train val test=flat": (16, 4, "1 folders of splits left out, which have images but"),
    "train/cat/.ipynb_checkpoints=flat train/cat/@eaDir/0.png=flat train": (
        12,
        4,
        "2 hidden or system files and folders left out: ",
    ),
    ".=flat cat=flat dog=flat": (12, 4, "8 images left out, which lie next to the"),
    "cat/tabby.jpg=flat dog=flat": (12, 4, "8 images of sub-folders, which get the cl"),
    "cat/tabby=flat dog=flat": (12, 4, "8 images of sub-folders, which get the class of"),
}


@pytest.mark.parametrize("names", FOUND)
def test_folders_by_the_names_people_use_and_what_they_would_not_notice(names, tree, capsys):
    train, test, line = FOUND[names]
    found = list_folder(tree(names), 0.2, 0)
    classes = ("bus", "train") if "bus" in names else ("cat", "dog")
    assert (len(found[0]), len(found[1]), found[2]) == (train, test, classes)
    assert not [one for one in found[0] + found[1] if ".ipynb" in one.path or "@eaDir" in one.path]
    assert capsys.readouterr().err.count(line) == 1


WRONG_SPLITS = {
    "train val valid": "expected one folder of validation images. Received: .*/val, .*/valid; ",
    "Train train val": "expected one folder of train images. Received: .*/Train, .*/train; rename",
    "train val horse": "expected in .* either .* Received: train, val, .* next to horse; rename",
    "test": "expected a folder train or training in .*data.train_split.*Received: .*/test",
    "valid test": "expected a folder train or training in .*Received: .*/test, .*/valid",
    "cat/train dog/test cat/test": "expected folders of splits above those of classes, as .*cat/",
    "train=flat test=flat": "expected folders of classes in test, train of .*rename them",
    "train val=flat": "expected one sub-folder for each of two or more classes in .*/val",
}


@pytest.mark.parametrize("names", WRONG_SPLITS)
def test_folders_of_splits_that_are_refused(names, tree):
    with pytest.raises(ValueError, match=f"^data.dir: {WRONG_SPLITS[names]}"):
        list_folder(tree(names), 0.2, 0)


def test_flat_folders_next_to_a_table(tree, tmp_path):
    """As of Kaggle: errors name the lines of the docs that make folders of classes."""
    folder = tree("train_images=flat test_images=flat")
    rows = [f"{i}.png,{label}" for i, label in enumerate(["cat", "dog"] * 4)]
    (folder / "train.csv").write_text("\n".join(["image_id,label", *rows]))
    hint = r"classes are folders, and no table is read \(train\.csv\): the lines of .Classes"
    for place in (folder, folder / "train_images"):
        with pytest.raises(ValueError, match=hint) as caught:
            list_folder(place, 0.2, 0)
        assert str(caught.value).count("\n") == 0
    page = (Path(__file__).parents[4] / "docs" / "training.md").read_text("utf-8")
    block = re.search(r"### Classes in a table\n.*?```python\n(.*?)```", page, re.DOTALL)
    with contextlib.chdir(folder):
        exec(compile(block[1], "docs", "exec"), {})
    train, test, classes = list_folder(folder / "images", 0.25, 0)
    assert (len(train), len(test), classes) == (6, 2, ("cat", "dog"))


def test_test_images_are_read_by_evaluation_alone(tree):
    folder = tree("train val test")
    for path in (folder / "test").rglob("*.png"):
        path.write_bytes(b"")
    assert len(list_folder(folder, 0.2, 0)[1]) == 4
    with pytest.raises(ValueError, match=r"unreadable image files: .*/test/"):
        list_folder(folder, 0.2, 0, train_split="test", test_split="test")
    for path in (folder / "train").rglob("*.png"):
        path.write_bytes(b"")
    for split in ("validation", "val"):
        train, test, _ = list_folder(folder, 0.2, 0, train_split=split, test_split=split)
        assert train == test
        assert {Path(file.path).parts[-3] for file in test} == {"val"}


@pytest.mark.parametrize(("split", "count"), {"validation": 4, "train": 12, "all": 16}.items())
def test_part_of_a_plain_folder_to_evaluate(split, count, tree):
    folder = tree("pets")
    _, test, _ = list_folder(folder, 0.25, 0, train_split=split, test_split=split)
    held_out = list_folder(folder, 0.25, 0)[1]
    assert len(test) == count
    assert len(set(test) & set(held_out)) == (0 if split == "train" else 4)


def test_links_to_folders_are_followed_once(tree, tmp_path, capsys):
    folder = tree("pets")
    elsewhere = tmp_path / "elsewhere"
    (folder / "pets" / "cat").rename(elsewhere)
    (folder / "pets" / "cat").mkdir()
    for name, target in {"a": elsewhere, "b": elsewhere, "up": folder, "gone": "nowhere"}.items():
        (folder / "pets" / "cat" / name).symlink_to(target)
    (elsewhere / "loop").symlink_to(elsewhere)
    train, test, _ = list_folder(folder, 0.25, 0)
    cats = [file.path for file in train + test if file.label == 0]
    assert len(cats) == 8
    assert all("/pets/cat/a/" in path for path in cats)
    assert "4 links left out, which lead nowhere or to folders that are" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "line"),
    [
        ([str(i) for i in range(12)], "sorted as text: output 2 is class '10', not '2'"),
        (["1", "2", "3"], "sorted as text: output 0 is class '1', not '0'"),
        (["a10", "a9"], "sorted as text: output 0 is class 'a10', not 'a9'"),
        ([str(i) for i in range(10)], None),
        (["Cat", "cat"], "names differ in case or spaces alone: 'Cat' and 'cat'"),
        (["a b", "a_b", "c"], "names differ in case or spaces alone: 'a b' and 'a_b'"),
        (["C", "C#"], None),
    ],
)
def test_names_of_classes_that_mislead(names, line):
    warnings = name_warnings(sorted(names))
    assert [line in warning for warning in warnings] == [True] * (line is not None)


def test_other_files_are_counted_and_named_in_one_line(photos, capsys):
    expected = list_folder(photos, 0.2, seed=0)
    lines = capsys.readouterr().err
    for name in ("red/1.heic", "red/2.avif", "blue/notes.txt", "blue/dir/3.heic", "blue/.hidden"):
        (photos / name).parent.mkdir(exist_ok=True)
        (photos / name).write_bytes(b"no image")
    assert list_folder(photos, 0.2, seed=0) == expected
    assert capsys.readouterr().err == (
        f"{lines}4 files left out, which are none of "
        ".jpg, .jpeg, .png, .webp, .bmp, .gif, .tif, .tiff: "
        f"{photos}/blue/dir/3.heic, {photos}/blue/notes.txt, {photos}/red/1.heic and 1 more\n"
        f"1 hidden or system files and folders left out: {photos}/blue/.hidden\n"
    )


def test_unreadable_files_are_counted_or_left_out(photos, capsys):
    whole = list_folder(photos, 0.2, seed=0)
    broken = sorted((photos / "red").iterdir())
    for path in broken[:7]:
        path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"unreadable image files: .*red/0\.jpg.* and 2 more"):
        list_folder(photos, 0.2, seed=0)
    train, test, classes = list_folder(photos, 0.2, seed=0, unreadable="skip")
    found = {file.path for file in train + test}
    assert found == {file.path for file in whole[0] + whole[1]} - {*map(str, broken[:7])}
    assert classes == whole[2]
    assert f"unreadable image file left out: {broken[0]} (" in capsys.readouterr().err
    for path in broken[7:]:
        path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"data\.dir: no readable images of class red"):
        list_folder(photos, 0.2, seed=0, unreadable="skip")


@pytest.fixture
def trained(tree):
    """Settings of the test images of a folder that a run has divided, and what the run noted."""
    folder = tree(".")
    for number, path in enumerate(folder.glob("*/*")):
        path.write_bytes(tf.io.encode_png(np.full((4, 4, 3), number, "uint8")).numpy())
    config = DataConfig(source="image_folder", dir=str(folder), test_fraction=0.5)
    index = ImageFolder(config).open(4).index
    return folder, config.model_copy(update={"train_split": "validation"}), index


def rename_files(folder):
    """Keeps their order."""
    for path in folder.glob("*/*"):
        path.rename(path.with_name(f"photo {path.name}"))
    return folder


@pytest.mark.parametrize(
    "move",
    [
        lambda folder: f"{folder}/",
        lambda folder: folder / ".." / folder.name,
        lambda folder: shutil.copytree(folder, folder.with_name("copy")),
        lambda folder: folder.rename(folder.with_name("moved")),
        rename_files,
    ],
    ids=["slash", "dots", "copied", "moved", "renamed"],
)
def test_images_that_a_run_has_held_out_may_be_elsewhere(trained, move):
    folder, config, index = trained
    names = ImageFolder(config).open(4).test.images
    expected = [(folder / path.decode()).read_bytes() for path in names]
    config = config.model_copy(update={"dir": str(move(folder))})
    found = ImageFolder(config, trained=index).open(4).test.images
    assert [Path(path.decode()).read_bytes() for path in found] == expected


def test_held_out_images_that_nothing_is_compared_with(trained, capsys):
    """As of a published network."""
    _, config, index = trained
    for known in (None, index):
        ImageFolder(config, trained=known).open(4)
        line = capsys.readouterr().err
        assert ("whether the network was trained on them is not known" in line) == (known is None)


def swap_classes(folder):
    (folder / "cat").rename(folder / "bird")
    (folder / "dog").rename(folder / "cat")
    (folder / "bird").rename(folder / "dog")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda folder: shutil.copy(folder / "cat/1.png", folder / "dog"), "contents"),
        (lambda folder: shutil.copy(folder / "cat/1.png", folder / "dog/9.png"), "test images"),
        (lambda folder: (folder / "cat/1.png").unlink(), "training images"),
        (swap_classes, "contents"),
    ],
    ids=["replaced", "added", "removed", "swapped"],
)
@pytest.mark.parametrize("path", [str, "{}/".format])
def test_other_images_than_a_run_has_held_out_are_refused(trained, change, what, path):
    """Of other images others would be held out, among them those of the training."""
    folder, config, index = trained
    change(folder)
    config = config.model_copy(update={"dir": path(folder)})
    expected = "expected the images of the training, .*--data.test_split all .*, with other "
    with pytest.raises(ValueError, match=expected + what):
        ImageFolder(config, trained=index).open(4)
    every = config.model_copy(update={"test_split": "all"})
    assert ImageFolder(every, trained=index).open(4).test.count > 14


def test_images_of_a_run_that_noted_their_number_alone(trained, capsys):
    folder, config, index = trained
    del index["contents"], index["names"]
    assert ImageFolder(config, trained=index).open(4).test.count == 8
    assert "held-out ones are those of its training is checked by their number alone" in (
        capsys.readouterr().err
    )
    (folder / "cat/1.png").unlink()
    with pytest.raises(ValueError, match=r"with other training images \(7, not 8\)"):
        ImageFolder(config, trained=index).open(4)


def test_data_of_a_resumed_run(tree, here):
    """They may be at another path, but must be the same."""
    folder, index = tree("train val"), here / "records.json"

    def start(place, **settings):
        settings |= {"source": "image_folder", "dir": str(place)}
        return ImageFolder(DataConfig(**settings), index).open(4)

    write_json(index, start(folder).index)
    moved = shutil.move(folder, here / "moved [2]")
    assert [*start("./moved [2]/").train.labels] == [0] * 8 + [1] * 8
    with contextlib.chdir(moved):
        start(".")
    with pytest.raises(ValueError, match=r"'moved \[2\]', with other training images \(4"):
        start("moved [2]", train_split="validation")
    shutil.copy(moved / "val/cat/0.png", moved / "val/cat/1.png")
    with pytest.raises(ValueError, match=r"began with; choose .*, with other contents$"):
        start(moved)
    (moved / "val/cat/1.png").rename(moved / "val/cat/2.png")
    with pytest.raises(ValueError, match=r", with other names$"):
        start(moved)
