"""Bad settings and folders of the commands about detectors: one line, before any work.

detection.txt has the command lines.
"""

import json
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
    Path("text.jpg").write_text("no image")
    Path("empty.json").write_text("{}")
    Path("data").mkdir()
    part = {"images": 1, "objects": 1}
    Path("data/dataset.json").write_text(
        json.dumps({"categories": {"1": "disc"}, "train": part, "val": part})
    )
    for name in ("boxes", "empty", "garbage", "negative"):
        Path(name).mkdir()
        number = "-1" if name == "negative" else "1"
        dataset = {"categories": {number: "disc"}, "train": part, "val": part}
        Path(name, "dataset.json").write_text(json.dumps({**dataset, "masks": name != "boxes"}))
    for name, content in (("empty", b""), ("garbage", b"garbage " * 99)):
        for shard in ("train", "val"):
            Path(name, f"{shard}-0.tfrecord").write_bytes(content)
    for name in ("unfinished", "damaged", "untested", "huge"):
        Path(name).mkdir()
        settings = DetectionConfig(output_dir=Path(name)).to_yaml()
        Path(name, "config.yaml").write_text(settings)
    Path("damaged/metrics.json").write_text("{}")
    counts = {"test_images": 1, "training_images": 1}
    ap = {"box": {"AP": None}}
    for name, number, test in (("untested", "1", {}), ("huge", "1000000000000", ap)):
        metrics = {"categories": {number: "disc"}, "test": test, **counts}
        Path(name, "metrics.json").write_text(json.dumps(metrics))
    return here


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("line", "message"), commands.lines("detection.txt"))
def test_one_line(line, message, capsys):
    verb, *arguments = commands.words(line)
    assert message in commands.refuse(verb, capsys, *arguments, **TOOLS)
