"""Image grids of detections."""

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask

from zoo.detection import plots

CATEGORIES = {1: "disc", 4: "a $star$\x1b"}
IMAGE = np.full((60, 80, 3), 200, "uint8")


def found(score, category=1, **others):
    pixels = np.zeros((60, 80), "uint8", order="F")
    pixels[10:40, 20:60] = 1
    rle = mask.encode(pixels)
    one = {"category_id": category, "bbox": [20, 10, 40, 30], "score": score, "segmentation": rle}
    return {key: value for key, value in (one | others).items() if value is not None}


@pytest.fixture
def draw(tmp_path, figures):
    """Function that draws images; returns title, texts, boxes and pixels of each panel."""

    def draw(*images, **options):
        path = tmp_path / "detections.png"
        plots.plot_detections(images, CATEGORIES, "A title", path, **options)
        with Image.open(path) as picture:
            assert picture.format == "PNG"
        return [
            (
                axis.get_title(loc="left"),
                [text.get_text() for text in axis.texts],
                [(*box.get_xy(), box.get_width(), box.get_height()) for box in axis.patches],
                axis.images[0].get_array(),
            )
            for axis in figures[-1].axes
            if axis.images
        ]

    return draw


def test_certain_objects_are_drawn_with_names_boxes_and_masks(draw):
    objects = [found(0.9), found(0.5, 4, segmentation=None), found(0.49)]
    ((title, texts, boxes, pixels),) = draw(("an image", IMAGE, objects, None))
    assert title == "an image"
    assert texts == [r"a $star$\x1b 50%", "disc 90%"]  # the highest scores on top
    assert boxes == [(20, 10, 40, 30)] * 2
    color = np.array([0xC6, 0x28, 0x28])  # of category 1
    np.testing.assert_allclose(pixels[20, 30], 0.55 * 200 + 0.45 * color, atol=1)
    assert (pixels[:10] == 200).all()
    ((_, texts, *_),) = draw(("an image", IMAGE, objects, None), threshold=0.4)
    assert texts == ["disc 49%", r"a $star$\x1b 50%", "disc 90%"]
    others = [found(0.9, 7), found(0.9, "a", name="named")]
    assert draw(("an image", IMAGE, others, None))[0][1] == ["7 90%", "named 90%"]


def test_annotated_objects_are_left_of_the_detections(draw):
    truth = [found(None)]
    panels = draw(("one", IMAGE, [found(0.9)], truth), ("two", IMAGE, [], None), columns=2)
    assert [title for title, *_ in panels] == ["annotated: one", "found: one", "two"]
    assert [texts for _, texts, *_ in panels] == [["disc"], ["disc 90%"], []]


def test_one_image_fills_its_figure():
    drawn = plots.draw_detections(IMAGE, [found(0.9)], CATEGORIES)
    assert drawn.shape == (round(6 * 60 / 80 * 130), 6 * 130, 3)
    assert (drawn != drawn[0, 0]).any(-1).mean() > 0.2
