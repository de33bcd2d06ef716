"""Image grids of detections."""

import numpy as np
from PIL import Image
from pycocotools import mask

from zoo.plots.detections import plot_detections

CATEGORIES = {1: "disc", 4: "a $star$\x1b"}


def found(score, category=1):
    pixels = np.zeros((60, 80), "uint8", order="F")
    pixels[10:40, 20:60] = 1
    return {
        "category_id": category,
        "bbox": [20, 10, 40, 30],
        "score": score,
        "segmentation": mask.encode(pixels),
    }


def drawn(tmp_path, *objects, count=1, truth=None, **options):
    image = np.full((60, 80, 3), 200, "uint8")
    images = [("an image", image, objects, truth)] * count
    plot_detections(images, CATEGORIES, "A title", tmp_path / "detections.png", **options)
    return np.array(Image.open(tmp_path / "detections.png").convert("RGB"))


def test_certain_objects_are_drawn(tmp_path):
    nothing = drawn(tmp_path)
    assert np.array_equal(nothing, drawn(tmp_path, found(0.4)))
    assert not np.array_equal(nothing, drawn(tmp_path, found(0.6)))
    assert not np.array_equal(nothing, drawn(tmp_path, found(0.4), threshold=0.3))
    disc, star = drawn(tmp_path, found(0.6)), drawn(tmp_path, found(0.6, 4))
    assert not np.array_equal(disc, star)  # in another color, with another name


def test_images_are_beside_each_other(tmp_path):
    one = drawn(tmp_path)
    four = drawn(tmp_path, count=4, columns=2)
    assert four.shape[1] == 2 * one.shape[1]
    assert drawn(tmp_path, count=3, columns=2).shape == four.shape


def test_unknown_categories_have_their_numbers(tmp_path):
    assert drawn(tmp_path, found(0.9, 7)).any()


def without(one, *names):
    return {key: value for key, value in one.items() if key not in names}


def test_annotated_objects_are_left_of_the_detections(tmp_path):
    pair = drawn(tmp_path, found(0.9), truth=[without(found(0), "score")])
    width = pair.shape[1] // 2
    assert abs(width - drawn(tmp_path).shape[1]) <= 1
    alone = drawn(tmp_path, truth=[without(found(0), "score")])
    changed = (pair != alone).any(-1)
    assert changed[:, width:].any()  # the detection
    assert not changed[:, : width - 5].any()
    assert (alone != drawn(tmp_path, truth=[])).any(-1)[:, :width].any()


def test_boxes_alone_are_drawn(tmp_path):
    boxes, nothing = drawn(tmp_path, without(found(0.9), "segmentation")), drawn(tmp_path)
    changed = (boxes != nothing).any(-1)
    assert changed.any()
    assert changed.mean() < (drawn(tmp_path, found(0.9)) != nothing).any(-1).mean() / 2
