"""Annotations in COCO's format: what is accepted, and what is named and refused or left out."""

import copy
import json

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask

from zoo.detection import coco
from zoo.detection.coco import decode_mask, encode_mask, read

SQUARE = [[2, 2, 6, 2, 6, 5, 2, 5]]
GOOD = {
    "images": [
        {"id": 7, "file_name": "a.jpg", "height": 10, "width": 20},
        {"id": 9, "file_name": "sub/b.png", "height": 10, "width": 20, "licence": 3},
    ],
    "annotations": [
        {
            "id": 5,
            "image_id": 7,
            "category_id": 3,
            "bbox": [2, 2, 4, 3],
            "area": 12.0,
            "iscrowd": 0,
            "segmentation": SQUARE,
        },
        {
            "id": 6,
            "image_id": 7,
            "category_id": 90,
            "bbox": [0, 0, 20.4, 10],
            "iscrowd": 1,
            "segmentation": {"size": [10, 20], "counts": [0, 200]},
        },
    ],
    "categories": [{"id": 90, "name": "sheep"}, {"id": 3, "name": "goat"}],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a.jpg", "sub/b.png"):
        Image.new("RGB", (20, 10)).save(tmp_path / name)
    return tmp_path


def write(folder, content):
    path = folder / "annotations.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def changed(place, **values):
    """The annotations above with other values at `list/number`; None takes a key away."""
    content = copy.deepcopy(GOOD)
    name, number = place.split("/")
    one = content[name][int(number)]
    one.update(values)
    for key in [key for key, value in values.items() if value is None]:
        del one[key]
    return content


def test_what_is_read(folder):
    found = read(write(folder, GOOD), folder)
    assert found.categories == {3: "goat", 90: "sheep"}  # ids need not be consecutive
    assert [image["id"] for image in found.images] == [7, 9]
    assert found.objects[9] == []
    goat, sheep = found.objects[7]
    assert goat["segmentation"] == SQUARE
    assert goat["area"] == 12
    assert sheep["bbox"] == [0, 0, 20, 10]  # cut at the edge, by less than a pixel
    assert (sheep["area"], sheep["iscrowd"]) == (200, 1)  # counted where it is not given
    assert found.to_json()["annotations"] == [goat, sheep]


def test_masks_of_every_form_are_the_same():
    pixels = np.zeros((10, 20), "uint8")
    pixels[2:5, 2:6] = 1
    runs = encode_mask(pixels)
    compressed = mask.encode(np.asfortranarray(pixels))
    text = {"size": [10, 20], "counts": compressed["counts"].decode()}
    for form in (SQUARE, runs, text):
        np.testing.assert_array_equal(decode_mask(form, 10, 20), pixels)
    full = np.ones((3, 2), "uint8")
    assert encode_mask(full) == {"size": [3, 2], "counts": [0, 6]}
    np.testing.assert_array_equal(decode_mask(encode_mask(full), 3, 2), full)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "expected JSON in"),
        ("[" * 100_000, "expected JSON in"),
        ("[]", "list of objects 'images'"),
        ({**GOOD, "annotations": 3}, "list of objects 'annotations'. Received: int"),
        ({**GOOD, "images": [3]}, "list of objects 'images'"),
        (changed("categories/0", id=0), "an id from 1 to 10000 and a name in"),
        (changed("categories/0", id=True), "an id from 1 to 10000"),
        (changed("categories/0", name=""), "Received: id=90, name=''"),
        (changed("categories/0", id=3), "id=3, name='goat' again"),
        ({**GOOD, "annotations": []}, "at least one object"),
    ],
)
def test_what_is_not_the_format(folder, content, message):
    for skip in (False, True):
        with pytest.raises(ValueError, match=message):
            read(write(folder, content), folder, skip)


SIZE = {"size": [10, 20]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed("images/1", id=7), "image 7: expected a whole number of its own"),
        (changed("images/1", id="9"), "image '9': expected a whole number"),
        (changed("images/1", file_name="c.jpg"), "c.jpg: No such file"),
        (changed("images/1", file_name="../a.jpg"), "expected a file of the folder, received '../"),
        (changed("images/1", file_name="/a.jpg"), "expected a file of the folder"),
        (changed("images/1", file_name="sub"), "sub: not a regular file"),
        (
            changed("images/1", file_name="annotations.json"),
            "annotations.json: not an image of",
        ),
        (changed("images/1", height=None), "image 9: expected height and width"),
        (changed("images/1", height=20, width=10), "b.png: expected 10 x 20 pixels, received 20 x"),
        (
            changed("annotations/0", image_id=8),
            "object 5: expected the id of an image, received im",
        ),
        (changed("annotations/0", category_id=4), "expected a category, received category_id=4"),
        (changed("annotations/0", category_id=None), "received category_id=None"),
        (changed("annotations/0", bbox=[2, 2, 4]), "expected bbox="),
        (changed("annotations/0", bbox=[2, 2, 4, float("nan")]), "expected bbox="),
        (changed("annotations/0", bbox=[2, 2, 0, 3]), r"received bbox=\[2, 2, 0, 3\]"),
        (changed("annotations/0", bbox=[2, 2, 4, 30]), "a box in an image of 20 x 10"),
        (changed("annotations/0", bbox=[-2, 2, 4, 3]), "a box in an image of 20 x 10"),
        (changed("annotations/0", bbox=[20, 2, 0.5, 3]), "a box in an image of 20 x 10"),
        (changed("annotations/0", iscrowd=2), "expected iscrowd to be 0 or 1"),
        (changed("annotations/0", area=-1), "expected an area in pixels, received -1"),
        (changed("annotations/0", segmentation=None), "expected polygons, or an RLE"),
        (changed("annotations/0", segmentation=[]), "expected polygons, or an RLE"),
        (changed("annotations/0", segmentation=[[1, 2, 3, 4]]), "expected polygons"),
        (changed("annotations/0", segmentation=[[1, 2, 3, 4, 5, 6, 7]]), "expected polygons"),
        (changed("annotations/0", segmentation=[[25, 15, 26, 15, 26, 16]]), "at least one pixel"),
        *(
            (
                changed("annotations/0", segmentation=[[0, 0, 10, 0, 10, far]]),
                "polygons in an image",
            )
            for far in (21, -11, 6e7, 1e9, -(2**31), 2**31, 1e15)
        ),
        (changed("annotations/0", segmentation=[[0, 0, 10, 0, 10, 1e308]]), "of three points"),
        (changed("annotations/0", segmentation=[[0, 0, 10, 0, 10, 10**400]]), "of three points"),
        (
            changed("annotations/0", segmentation=[[0, 0, 20, 10] * 200]),
            "at most 3200 pixels around",
        ),
        (changed("annotations/0", bbox=[2, 2, 4, 10**400]), "expected bbox="),
        (changed("annotations/0", area=10**400), "expected an area in pixels"),
        (changed("annotations/0", segmentation={"size": [5, 5], "counts": [25]}), "RLE with size"),
        (changed("annotations/0", segmentation={**SIZE, "counts": [1, 2]}), "received 3 pixels"),
        (changed("annotations/0", segmentation={**SIZE, "counts": [-1, 201]}), "whole numbers"),
        (changed("annotations/0", segmentation={**SIZE, "counts": 3}), "an RLE with counts"),
        (changed("annotations/0", segmentation={**SIZE, "counts": "zz"}), "received one with 'z'"),
        (changed("annotations/0", segmentation={**SIZE, "counts": "5"}), "received 5 pixels"),
        (changed("annotations/0", segmentation={**SIZE, "counts": "a b"}), "received one with ' '"),
    ],
)
def test_what_is_wrong_is_refused_or_left_out(folder, content, message, capsys):
    path = write(folder, content)
    with pytest.raises(ValueError, match=f"--unreadable skip.*{message}"):
        read(path, folder)
    found = read(path, folder, skip=True)
    assert f"1 left out of {path}" in capsys.readouterr().err
    everything = len(found.images) + sum(map(len, found.objects.values()))
    assert everything == 3  # of two images and two objects
    assert [one["category_id"] for one in found.objects[7]][-1] == 90


def test_many_faults_are_counted(folder):
    content = copy.deepcopy(GOOD)
    content["annotations"] += [{"id": 100 + i} for i in range(20)]
    with pytest.raises(ValueError, match=r"object 100.*and 15 more") as caught:
        read(write(folder, content), folder)
    assert "\n" not in str(caught.value)
    assert coco.NAMED == 5


def test_folder_of_images_is_needed(folder):
    with pytest.raises(ValueError, match="expected a folder of images"):
        read(write(folder, GOOD), folder / "nowhere")
    with pytest.raises(ValueError, match="expected a JSON file of annotations"):
        read(folder / "nothing.json", folder)


def test_boxes_alone(folder):
    content = copy.deepcopy(GOOD)
    goat, sheep = content["annotations"]
    goat["segmentation"] = []  # as some tools write it
    del sheep["segmentation"], goat["area"]
    found = read(write(folder, content), folder)
    assert not found.masks
    for one, area in zip(found.objects[7], (12, 200), strict=True):
        assert "segmentation" not in one
        assert one["area"] == area  # that of the box where it is not given
    with pytest.raises(ValueError, match=r"--masks false takes boxes alone"):
        read(write(folder, content), folder, masks=True)
    assert read(write(folder, GOOD), folder).masks
    assert not read(write(folder, GOOD), folder, masks=False).masks
