"""Drawn images: the same again, with exact boxes and masks."""

import json
import os

import numpy as np
from PIL import Image
from pycocotools.mask import decode
from support.detectors import drawn  # noqa: F401

from tools import shapes
from zoo.detection import coco


def test_annotations_pass_every_check(drawn):  # noqa: F811
    for part in ("train", "val"):
        read = coco.read(drawn / f"{part}.json", drawn / part)
        assert read.categories == {1: "disc", 2: "square", 3: "triangle"}
        objects = [*read.objects.values()]
        assert (len(objects), objects.count([])) == (12, 1)  # one image is empty
        found = [one for of_image in objects for one in of_image]
        assert sum(one["iscrowd"] for one in found) == 1
        assert {one["category_id"] for one in found} == {1, 2, 3}


def test_boxes_are_those_of_the_masks(drawn):  # noqa: F811
    for one in json.loads((drawn / "val.json").read_text())["annotations"]:
        mask = decode(one["segmentation"])
        assert mask.sum() == one["area"]
        left, top, width, height = one["bbox"]
        inside = mask[top : top + height, left : left + width]
        assert inside.sum() == mask.sum()
        assert all(edge.any() for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))


def test_objects_are_drawn_where_their_masks_are():
    background = np.full((64, 64, 3), 100, "uint8")
    for place in range(8):
        image, objects = shapes.draw([background], 64, place, np.random.default_rng(place))
        masks = [decode(one["segmentation"]) for one in objects]
        assert np.sum(masks, axis=0).max() == 1  # what is hidden belongs to none
        changed = (image != 100).any(-1)
        assert not changed[~np.any(masks, axis=0)].any()
        assert changed[np.any(masks, axis=0)].mean() > 0.9


def test_the_same_seed_draws_the_same(tmp_path, capsys):
    """By the command, whose default is the seed 0, and by the function."""
    arguments = ["--output", str(tmp_path / "one"), "--train", "2", "--val", "1", "--size", "64"]
    shapes.main(arguments)
    assert capsys.readouterr().out.startswith("wrote 2 + 1 images to ")
    assert sorted(os.listdir(tmp_path / "one")) == ["train", "train.json", "val", "val.json"]
    for name, seed in (("same", 0), ("other", 1)):
        shapes.write(tmp_path / name, 2, 1, 64, seed)
    one, same, other = (
        np.stack([Image.open(tmp_path / name / "train" / f"00000{i}.jpg") for i in range(2)])
        for name in ("one", "same", "other")
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    # Not the same drawings on other backgrounds, either.
    texts = ((tmp_path / "one" / f"{part}.json").read_text() for part in ("train", "val"))
    first, second = (json.loads(text)["annotations"][0]["bbox"] for text in texts)
    assert first != second
