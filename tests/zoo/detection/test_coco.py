"""Annotations in COCO's format: what is accepted, and what is named and refused or left out."""

import copy
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from pycocotools import mask
from support.detectors import edit, read

from zoo.detection import coco
from zoo.detection.coco import encode_mask, read_mask

SQUARE = [[2, 2, 6, 2, 6, 5, 2, 5]]
OBJECT = {"image_id": 7, "category_id": 3, "bbox": [2, 2, 4, 3], "area": 12.0, "iscrowd": 0}
CROWD = {"image_id": 7, "category_id": 90, "bbox": [0, 0, 20.4, 10], "iscrowd": 1}
GOOD = {
    "images": [
        {"id": 7, "file_name": "a.jpg", "height": 10, "width": 20},
        {"id": 9, "file_name": "sub/b.png", "height": 10, "width": 20, "licence": 3},
    ],
    "annotations": [
        {"id": 5, **OBJECT, "segmentation": SQUARE},
        {"id": 6, **CROWD, "segmentation": {"size": [10, 20], "counts": [0, 200]}},
    ],
    "categories": [{"id": 90, "name": "sheep"}, {"id": 3, "name": "goat"}],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a.jpg", "sub/b.png"):
        Image.new("RGB", (20, 10)).save(tmp_path / name)
    return tmp_path


def changed(place, **values):
    return edit(copy.deepcopy(GOOD), place, **values)


def case(place, message, **values):
    """Annotations with other values, and what is said of them."""
    return pytest.param(changed(place, **values), message, id=f"{place} {values}"[:80])


def test_what_is_read(folder):
    found = read(folder, GOOD)
    assert found.categories == {3: "goat", 90: "sheep"}  # ids need not be consecutive
    assert [image["id"] for image in found.images] == [7, 9]
    assert found.objects[9] == []
    goat, sheep = found.objects[7]
    assert mask.decode(goat["segmentation"]).sum() == 12
    assert goat["area"] == 12
    assert sheep["bbox"] == [0, 0, 20, 10]  # cut at the edge, by less than a pixel
    assert (sheep["area"], sheep["iscrowd"]) == (200, 1)  # counted where it is not given
    assert found.to_json()["annotations"] == [goat, sheep]


@settings(deadline=None, derandomize=True, max_examples=100)
@given(arrays("uint8", st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.integers(0, 1)))
def test_masks_of_every_form_are_those_of_pycocotools(pixels):
    """Compressed and uncompressed RLE, and lists of them."""
    encoded = mask.encode(np.asfortranarray(pixels))
    assert encode_mask(pixels) == encoded | {"counts": encoded["counts"].decode()}
    runs = {"size": [*pixels.shape], "counts": coco.run_lengths(encode_mask(pixels)["counts"])}
    assert sum(runs["counts"]) == pixels.size
    for form in (runs, [runs], encode_mask(pixels)):
        np.testing.assert_array_equal(mask.decode(read_mask(form, *pixels.shape)), pixels)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(st.tuples(*[st.integers(0, 9)] * 4), min_size=1, max_size=3))
def test_polygons_are_those_of_pycocotools(rectangles):
    polygons = [[x, y, x + w, y, x + w, y + h, x, y + h] for x, y, w, h in rectangles]
    expected = mask.decode(mask.merge(mask.frPyObjects(polygons, 10, 20)))
    np.testing.assert_array_equal(mask.decode(read_mask(polygons, 10, 20)), expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "expected COCO's format. Received: .*the file: Invalid JSON"),
        (b"[" * 100_000, "expected COCO's format. Received: .*the file: Invalid JSON"),
        (b"7", "the file: Input should be an object"),
        ({**GOOD, "annotations": 3}, "annotations: Input should be a valid array, not 3"),
        ({**GOOD, "images": [3]}, r"images\.0: Input should be an object, not 3"),
        case("categories/0", r"categories\.0\.id: .* valid integer, not True", id=True),
        case("categories/0", r"categories\.0\.name: .* at least 1 character", name=""),
        case("categories/0", "ids and names of their own. Received: id=3 name='goat' again", id=3),
        case("categories/0", "Received: id=3 name='goat' again", name="goat"),
        ({**GOOD, "annotations": []}, "at least one object"),
    ],
)
def test_what_is_not_the_format(folder, content, message):
    for skip in (False, True):
        with pytest.raises(ValueError, match=message):
            read(folder, content, skip)


def refused(key, message, *values, place="annotations/0"):
    """Cases of an object, or an image, with wrong values of one key."""
    return [case(place, message, **{key: value}) for value in values]


WRONG = [
    *refused("id", "a whole number of its own", [9], place="images/1"),
    *(
        case("images/1", f"file of the folder, .*='{re.escape(name)}'", file_name=name)
        for name in ("c.jpg", "../a.jpg", "/etc/passwd", "http://[b.png")
    ),
    case("images/1", r"\(not a regular file\) \(1, such as sub", file_name="sub"),
    case("images/1", r"not an image of .*such as annotations", file_name="annotations.json"),
    case("images/1", "sub/b.png: 10 x 20 pixels, of the file 20 x", height=20, width=10),
    *refused("image_id", "the id of an image .*object 5: image_id=8", 8),
    *refused("category_id", "expected a category .*: category_id=4", 4),
    *refused("category_id", "object 5: category_id=None", ...),
    *refused("bbox", "expected bbox=", [2, 2, 4], [2, 2, 4, float("nan")], [2, 2, 4, 10**400]),
    *refused("bbox", "expected bbox=", ["two", 2, 4, 3], [2, 2, 4, 2**54], [-(2**54), 2, 2**54, 4]),
    *refused("iscrowd", "expected iscrowd to be 0 or 1", 2),
    *(
        case("annotations/0", message, segmentation=form)
        for message, *forms in (
            ("expected polygons, or an RLE", ..., [], [[1, 2, 3, 4]], [[1, 2, 3, 4, 5, 6, 7]]),
            ("of three points", [[0, 0, 10, 0, 10, 1e308]]),
            ("polygons, or an RLE", [[0, 0, 10, 0, 10, 10**400]]),
            ("at most height x width .*object 5: 12000", [[0, 0, 20, 10] * 200]),
            ("RLE of the height", {"size": [5, 5], "counts": [25]}),
        )
        for form in forms
    ),
    *(
        case("annotations/0", message, segmentation={"size": [10, 20], "counts": counts})
        for message, counts in (
            (": 3 pixels, not 200", [1, 2]),
            (r"0\.\.\.0+ pixels", [10**300]),
            ("whole numbers", [-1, 201]),
            ("an RLE with counts", 3),
            ("one with 'z'", "zz"),
            ("5 pixels, not 200", "5"),
            ("one with ' '", "a b"),
            ("one with 'o'", "o" * 8 + "0"),
        )
    ),
]


@pytest.mark.parametrize(("content", "message"), WRONG)
def test_what_is_wrong_is_refused_or_left_out(folder, content, message, capsys):
    with pytest.raises(ValueError, match=f"--unreadable skip.*{message}"):
        read(folder, content)
    found = read(folder, content, skip=True)
    assert f"{folder}/annotations.json: left out: " in capsys.readouterr().err
    everything = len(found.images) + sum(map(len, found.objects.values()))
    assert everything == 3  # of two images and two objects
    assert [one["category_id"] for one in found.objects[7]][-1] == 90


@pytest.mark.parametrize("file", ["sub/b.png", "lost.jpg"])
def test_an_id_of_two_images_gives_neither_the_objects_of_the_other(folder, file, capsys):
    content = changed("images/1", id=7, file_name=file)
    content["images"].append({"id": 9, "file_name": "c.jpg"})
    content["annotations"].append({**GOOD["annotations"][0], "image_id": 9})
    Image.new("RGB", (20, 10)).save(folder / "c.jpg")
    with pytest.raises(ValueError, match=r"number of its own \(2, such as image 7: 'a.jpg'"):
        read(folder, content)
    found = read(folder, content, skip=True)
    assert {number: len(objects) for number, objects in found.objects.items()} == {9: 1}
    assert "objects of images that are left out (2," in capsys.readouterr().err


def test_annotations_of_shards_are_checked_without_their_images(tmp_path):
    path = tmp_path / "val.json"
    path.write_text(json.dumps(changed("images/1", id=7)))
    found, _, faults = coco.parse(path)
    assert [*faults.lines()] == [
        "expected a whole number of its own (1, such as image 7: it again)"
    ]
    assert [image["file_name"] for image in found.images] == ["a.jpg"]


def test_long_polygons_of_small_images_are_read():
    """Edges of 100 times its sides are allowed, which tools draw by hand."""
    zigzag = [x for i in range(100) for x in (i % 2 * 19, 1 + i * 0.08)]
    mask_of = read_mask([[*zigzag, 0, 9]], 10, 20)
    assert mask.decode(mask_of).any()


def test_folder_of_images_is_needed(folder):
    with pytest.raises(ValueError, match="expected a folder of images"):
        coco.read(folder / "annotations.json", folder / "nowhere")


def test_boxes_alone(folder):
    content = copy.deepcopy(GOOD)
    goat, sheep = content["annotations"]
    goat["segmentation"] = []  # as some tools write it
    del sheep["segmentation"], goat["area"]
    content["annotations"].append({**goat, "id": 8, "bbox": [20, 2, 4, 3]})  # beside the image
    found = read(folder, content)
    assert not found.masks
    for one, area in zip(found.objects[7], (12, 200), strict=True):
        assert "segmentation" not in one
        assert one["area"] == area  # that of the box where it is not given
    with pytest.raises(ValueError, match=r"--masks false takes boxes alone"):
        read(folder, content, masks=True)
    assert read(folder, GOOD).masks
    boxless = read(folder, changed("annotations/0", bbox=...), masks=False)
    assert not boxless.masks
    assert boxless.objects[7][0]["bbox"] == [2, 2, 4, 3]  # of its mask
    assert "segmentation" not in boxless.objects[7][0]
    with pytest.raises(ValueError, match=r"expected bbox=\[x, y, width, height\] .*none"):
        read(folder, changed("annotations/0", bbox=..., segmentation=...), masks=False)
