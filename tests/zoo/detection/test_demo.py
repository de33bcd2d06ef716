"""The demo page of a detector, without a server."""

import asyncio
from types import SimpleNamespace

import gradio as gr
import pytest
from PIL import Image

from zoo.demo.command import DemoConfig
from zoo.detection.demo import Demo, load


async def built(demo: Demo) -> gr.Blocks:
    """Builds the page in an event loop: where none runs, Gradio opens one and leaves it."""
    return demo.build()


def test_objects_are_rows_of_a_table(tmp_path):
    """With a detector that finds two objects, of which some thresholds leave one."""
    photo = str(tmp_path / "photo.png")
    Image.new("RGB", (30, 20)).save(photo)
    found = [
        {"name": "cat", "category_id": 1, "score": 0.912, "bbox": [1.6, 2.0, 10.4, 12.5]},
        {"name": "dog", "category_id": 2, "score": 0.3, "bbox": [0, 0, 5, 5]},
    ]

    class Finds(SimpleNamespace):
        def __call__(self, image, threshold):
            assert image.shape == (20, 30, 3)
            return [one for one in found if one["score"] >= threshold]

    shown = Demo(Finds(title="Mask R-CNN", categories={1: "cat", 2: "dog"}))
    picture, rows = shown.detect(photo, 0.5)
    assert rows == [["cat", "91.2%", 2, 2, 10, 12]]
    assert picture.shape == (520, 780, 3)
    assert len(shown.detect(photo, 0.1)[1]) == 2
    assert shown.detect(None, 0.5) == (None, [])
    with pytest.raises(gr.Error, match=r"unreadable image: none.png \("):
        shown.detect(str(tmp_path / "none.png"), 0.5)
    components = asyncio.run(built(shown)).get_config_file()["components"]
    texts = [str(one["props"].get("value")) for one in components]
    assert any("# What Mask R-CNN sees" in text for text in texts)
    assert any("Lambda maps are of classifiers" in text for text in texts)


def test_detectors_have_no_other_precision():
    config = DemoConfig.from_values({"run": "runs", "precision": "auto"})
    with pytest.raises(ValueError, match=r"precision: expected none with a detector. .* 'auto'"):
        load(config)
