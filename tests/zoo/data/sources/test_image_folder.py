"""Listing, splitting and checking image files."""

import shutil

import pytest

from zoo.config import DataConfig
from zoo.data.readable import check_readable
from zoo.data.sources.image_folder import Source


def list_folder(folder, test_fraction, seed, unreadable="refuse"):
    settings = {"test_fraction": test_fraction, "split_seed": seed, "unreadable": unreadable}
    return Source(DataConfig(source="image_folder", dir=str(folder), **settings)).list_files()


def test_plain_folder_is_split_evenly_and_always_alike(photos):
    train, test, classes = list_folder(photos, 0.2, seed=0)
    assert classes == ("blue", "red")
    assert sorted(file.label for file in test) == [0, 0, 1, 1]
    assert len(train) == 16
    assert not set(train) & set(test)
    assert list_folder(photos, 0.2, seed=0)[1] == test
    assert list_folder(photos, 0.2, seed=1)[1] != test
    for file in train:
        assert f"/{classes[file.label]}/" in file.path


def test_train_and_val_folders_are_taken_as_they_are(photos, tmp_path):
    folder = tmp_path / "split"
    shutil.copytree(photos, folder / "train")
    shutil.copytree(photos, folder / "val", ignore=shutil.ignore_patterns("[1-9].*"))
    train, test, classes = list_folder(folder, 0.5, seed=0)
    assert (len(train), len(test), classes) == (20, 2, ("blue", "red"))


def test_missing_folder(tmp_path):
    with pytest.raises(ValueError, match=r"data\.dir: expected a folder.*nowhere"):
        list_folder(tmp_path / "nowhere", 0.2, 0)


def test_one_class_only(photos):
    shutil.rmtree(photos / "red")
    with pytest.raises(ValueError, match=r"two or more classes.*\['blue'\]"):
        list_folder(photos, 0.2, 0)


def test_empty_class(photos):
    (photos / "green").mkdir()
    (photos / "green" / "notes.txt").write_text("no image")
    with pytest.raises(ValueError, match=r"no images .* in .*green, but .*green/notes\.txt"):
        list_folder(photos, 0.2, 0)


def test_class_too_small_to_split(photos):
    for path in sorted((photos / "red").iterdir())[1:]:
        path.unlink()
    with pytest.raises(ValueError, match=r"data\.test_fraction=0\.2"):
        list_folder(photos, 0.2, 0)


def test_train_without_val(photos, tmp_path):
    shutil.copytree(photos, tmp_path / "split" / "train")
    with pytest.raises(ValueError, match="none of val, validation, test"):
        list_folder(tmp_path / "split", 0.2, 0)


def test_train_and_val_with_other_classes(photos, tmp_path):
    folder = tmp_path / "split"
    shutil.copytree(photos, folder / "train")
    shutil.copytree(photos, folder / "val")
    (folder / "val" / "red").rename(folder / "val" / "rad")
    with pytest.raises(ValueError, match=r"differ in classes: \['rad', 'red'\]"):
        list_folder(folder, 0.2, 0)


def test_readable_files_pass(photos):
    check_readable([str(path) for path in photos.rglob("*.*")])


@pytest.mark.parametrize("name", ["0.jpg", "1.png"])
def test_truncated_file_is_named(photos, name):
    path = photos / "red" / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match=f"unreadable image files: .*red/{name} \\(Invalid"):
        check_readable([str(path) for path in photos.rglob("*.*")])


def test_other_files_are_counted_and_named_in_one_line(photos, capsys):
    expected = list_folder(photos, 0.2, seed=0)
    assert capsys.readouterr().err == ""
    for name in ("red/1.heic", "red/2.avif", "blue/notes.txt", "blue/dir/3.heic", "blue/.hidden"):
        (photos / name).parent.mkdir(exist_ok=True)
        (photos / name).write_bytes(b"no image")
    assert list_folder(photos, 0.2, seed=0) == expected
    assert capsys.readouterr().err == (
        "4 files left out, which are none of .jpg, .jpeg, .png, .webp, .bmp, .gif, .tif, .tiff: "
        f"{photos}/blue/dir/3.heic, {photos}/blue/notes.txt, {photos}/red/1.heic and 1 more\n"
    )


def test_many_broken_files_are_counted(photos):
    files = sorted(photos.rglob("*.*"))[:7]
    for path in files:
        path.write_bytes(b"")
    with pytest.raises(ValueError, match="and 2 more"):
        check_readable([str(path) for path in files])


def test_unreadable_files_are_left_out_and_named(photos, capsys):
    whole = list_folder(photos, 0.2, seed=0)
    broken = photos / "red" / "0.jpg"
    broken.write_bytes(b"")
    with pytest.raises(ValueError, match=r"unreadable image files: .*red/0\.jpg"):
        list_folder(photos, 0.2, seed=0)
    train, test, classes = list_folder(photos, 0.2, seed=0, unreadable="skip")
    assert str(broken) not in [file.path for file in train + test]
    assert len(train + test) == 19
    assert classes == whole[2]
    assert f"unreadable image file left out: {broken}" in capsys.readouterr().err


def test_class_without_readable_files(photos):
    for path in (photos / "red").iterdir():
        path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"data\.dir: no readable images of class red"):
        list_folder(photos, 0.2, seed=0, unreadable="skip")
