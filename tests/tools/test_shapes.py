"""Drawn images: the same again, with exact boxes and masks."""

import json

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
        counts = [len(objects) for objects in read.objects.values()]
        assert len(counts) == 12
        assert counts.count(0) == 1  # an empty image
        found = [one for objects in read.objects.values() for one in objects]
        assert sum(one["iscrowd"] for one in found) == 1
        assert {one["category_id"] for one in found} == {1, 2, 3}


def test_boxes_are_those_of_the_masks(drawn):  # noqa: F811
    content = json.loads((drawn / "val.json").read_text())
    for one in content["annotations"]:
        mask = decode(one["segmentation"])
        assert mask.sum() == one["area"]
        left, top, width, height = one["bbox"]
        inside = mask[top : top + height, left : left + width]
        assert inside.sum() == mask.sum()
        for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]):
            assert edge.any()


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
    names = {path.name for path in (tmp_path / "one").iterdir()}
    assert names == {"train", "train.json", "val", "val.json"}
    for name, seed in (("same", 0), ("other", 1)):
        shapes.write(tmp_path / name, 2, 1, 64, seed)
    one, same, other = (
        np.stack([Image.open(tmp_path / name / "train" / f"00000{i}.jpg") for i in range(2)])
        for name in ("one", "same", "other")
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    boxes = []  # Not the same drawings on other backgrounds, either.
    for part in ("train", "val"):
        objects = json.loads((tmp_path / "one" / f"{part}.json").read_text())["annotations"]
        boxes.append([one["bbox"] for one in objects if one["image_id"] == 0])
    assert boxes[0] != boxes[1]
