"""Bad settings and folders of the commands about detectors: one line, before any work.

detection.txt has the command lines.
"""

from pathlib import Path

import pytest
from PIL import Image
from support import commands

from tools import detection_cost, shapes
from zoo.detection.config import DetectionConfig

TOOLS = {"shapes": shapes.main, "cost": detection_cost.main}


@pytest.fixture
def here(here) -> Path:
    """The current folder, with some of everything."""
    Image.new("RGB", (40, 30)).save("a.jpg")
    part = {"images": 1, "objects": 1}
    data = {"categories": {"1": "disc"}, "train": part, "val": part}
    metrics = {"categories": {"1": "disc"}, "test_images": 1, "training_images": 1}
    many = {"categories": {"1000000000000": "disc"}, "test": {"box": {"AP": None}}}
    files = {
        "text.jpg": "no image",
        "empty.json": {},
        "data/dataset.json": data,
        "boxes/dataset.json": {**data, "masks": False},
        "negative/dataset.json": {**data, "categories": {"-1": "disc"}, "masks": True},
        "damaged/metrics.json": {},
        "untested/metrics.json": {**metrics, "test": {}},
        "huge/metrics.json": {**metrics, **many},
    }
    for name, content in (("empty", b""), ("garbage", b"garbage " * 99)):
        files[f"{name}/dataset.json"] = {**data, "masks": True}
        files |= {f"{name}/{shard}-0.tfrecord": content for shard in ("train", "val")}
    for name in ("unfinished", "damaged", "untested", "huge"):
        files[f"{name}/config.yaml"] = DetectionConfig(output_dir=Path(name)).to_yaml()
    commands.write(files)
    return here


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("line", "message"), commands.lines("detection.txt"))
def test_one_line(line, message, capsys):
    verb, *arguments = commands.words(line)
    assert message in commands.refuse(verb, capsys, *arguments, **TOOLS)
