"""Detected objects: printed, pasted into images, and written."""

import json
from pathlib import Path

import numpy as np
import pytest
from pycocotools.mask import decode

from zoo.detection import objects

FOUND = [
    {"name": "cat", "category_id": 3, "score": 0.5, "bbox": [4.4, 6.6, 20.0, 12.0]},
    {"name": "a\x1b", "category_id": 1, "score": 0.4999, "bbox": [0, 0, 1, 1]},
]


def test_objects_from_a_score_on_are_described():
    lines = objects.describe(Path("a.jpg"), FOUND, 0.5).split("\n")
    assert lines == ["a.jpg", "   50.0%  cat, 20 x 12 pixels at (4, 7)", ""]
    assert "  a\\x1b, 1 x 1" in objects.describe(Path("a.jpg"), FOUND, 0.4)


def test_grid_has_room_for_100_images():
    photos = [Path("a.jpg")] * 101
    objects.check_output(Path("a.png"), photos[1:])
    objects.check_output(Path("a.json"), photos)
    objects.check_output(None, photos)
    with pytest.raises(ValueError, match=r"photos: expected at most 100 .*: 101 \(write .json\)"):
        objects.check_output(Path("a.png"), photos)


def test_results_are_written_whatever_their_score(tmp_path):
    found = [dict(one) for one in FOUND]
    objects.write([(Path("b.jpg"), found)], "A title", 0.9, tmp_path / "found.json")
    written = json.loads((tmp_path / "found.json").read_text())
    assert [(one["file_name"], one["category_id"]) for one in written] == [
        ("b.jpg", 3),
        ("b.jpg", 1),
    ]
    assert "name" not in written[0]


def test_masks_fill_their_boxes():
    """The left half of a box, of the image 30 x 40; a part of it may be outside."""
    mask = np.zeros((28, 28))
    mask[:, :14] = 255
    for (left, top, width, height), expected in (
        ((4, 6, 20, 12), np.s_[6:18, 4:14]),
        ((-10, 20, 40, 20), np.s_[20:30, 0:10]),
    ):
        pixels = decode(objects.paste(mask.tolist(), (left, top, width, height), (30, 40)))
        assert pixels.shape == (30, 40)
        wanted = np.zeros((30, 40), bool)
        wanted[expected] = True
        assert (pixels != wanted).sum() <= height + 2 * width  # its edges, by a pixel
        assert pixels[
            top + 2 : min(top + height, 30) - 2, max(left, 0) + 2 : left + width // 2 - 2
        ].all()
    faint = objects.paste(np.full((28, 28), 127).tolist(), (4, 6, 20, 12), (30, 40))
    assert not decode(faint).any()
