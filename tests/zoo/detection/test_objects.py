"""Detected objects: printed, pasted into images, and written."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

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
    found = [(one["file_name"], one["category_id"]) for one in written]
    assert found == [("b.jpg", 3), ("b.jpg", 1)]
    assert "name" not in written[0]


def test_grid_has_upright_images_with_the_names_of_all(tmp_path, monkeypatch):
    """And objects from the threshold on."""
    pixels = np.zeros((10, 20, 3), "uint8")
    pixels[:, :10] = 255
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "a.png")
    Image.fromarray(pixels).save(tmp_path / "b.png", exif=exif)
    drawn = []
    monkeypatch.setattr("zoo.detection.plots.plot_detections", lambda *given: drawn.extend(given))
    results = [(tmp_path / "a.png", FOUND[:1]), (tmp_path / "b.png", FOUND[1:])]
    objects.write(results, "A net", 0.3, tmp_path / "out.png")
    images, names, title, output, threshold, _ = drawn
    assert [(name, shown.shape, found) for name, shown, found, _ in images] == [
        ("a.png", (10, 20, 3), FOUND[:1]),
        ("b.png", (20, 10, 3), FOUND[1:]),
    ]
    assert images[1][1][:10].all()
    assert not images[1][1][10:].any()
    assert names == {3: "cat", 1: "a\x1b"}
    assert title == "A net: objects with a score from 30%"
    assert (output, threshold) == (tmp_path / "out.png", 0.3)
