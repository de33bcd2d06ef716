"""Dataset warnings about one's own images."""

import shutil

import pytest
from PIL import Image

from zoo.config import DataConfig
from zoo.data.load import balanced_weights, class_warnings, load_data


def warnings(folder, size=24, **settings):
    config = DataConfig(source="image_folder", dir=str(folder), batch_size=2, **settings)
    return load_data(config, size).warnings


def test_the_same_file_in_training_and_test(photos, tmp_path):
    folder = tmp_path / "split"
    shutil.copytree(photos, folder / "train")
    (folder / "val" / "red").mkdir(parents=True)
    (folder / "val" / "blue").mkdir()
    Image.new("RGB", (40, 40)).save(folder / "val" / "red" / "new.png")
    shutil.copy(photos / "red" / "3.jpg", folder / "val" / "blue" / "other name.jpg")
    two_classes, line = warnings(folder)
    assert two_classes.startswith("1 images are in two classes")
    assert line.startswith("1 of 2 test images are in training, too")
    assert line.endswith(f"other name.jpg = {folder}/train/red/3.jpg")


def test_images_smaller_than_what_the_network_gets(photos):
    assert not [line for line in warnings(photos, 30) if "smaller than the" in line]
    line = next(line for line in warnings(photos, 31) if "smaller than the 31 pixels" in line)
    assert "of 16 training images" in line
    assert "(40 x 30)" in line


def test_classes_with_few_images_and_unequal_ones():
    names = ["ant", "bee\x1b", "cat", "dog", "eel"]
    labels = [0] * 60 + [1] * 3 + [2] * 9 + [3] * 8 + [4]
    few, unequal = class_warnings(labels, names, weighted=False)
    assert few == (
        "classes with fewer than 10 training images: bee\\x1b (3), cat (9), dog (8) and 1 more"
    )
    assert unequal.startswith("the largest class has 60 times")
    assert class_warnings(labels, names, weighted=True) == [few]
    assert class_warnings([0] * 49 + [1] * 10, ["a", "b"], weighted=False) == []
    (line,) = class_warnings([0] * 50 + [1] * 10, ["a", "b"], weighted=False)
    assert line.startswith("the largest class has 5 times")


def test_weights_make_classes_count_as_much():
    labels = [0] * 6 + [1] * 3 + [2]
    weights = balanced_weights(labels, 3)
    assert [6 * weights[0], 3 * weights[1], weights[2]] == pytest.approx([10 / 3] * 3)
    with pytest.raises(ValueError, match="none of class number 1"):
        balanced_weights([0, 0, 2], 3)
