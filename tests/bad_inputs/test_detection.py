"""Bad settings and folders of the commands about detectors: one line, before any work."""

import json
from pathlib import Path

import pytest
from PIL import Image
from support import commands

from tools import detection_cost, shapes
from zoo.detection.config import DetectionConfig

TOOLS = {"shapes": shapes.main, "cost": detection_cost.main}
TRAIN = "train --task detection --data.batch_size 1 "
CONVERT = "detection.convert --train_images . --val_images . --output new --train_annotations"


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
    for name, number, test in (
        ("untested", "1", {}),
        ("huge", "1000000000000", {"box": {"AP": None}}),
    ):
        metrics = {"categories": {number: "disc"}, "test": test, **counts}
        Path(name, "metrics.json").write_text(json.dumps(metrics))
    return here


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("train --model.name resnet51", "did you mean 'resnet50'"),
        ("train --model.overrides include_top=true", "include_top"),
        ("train --model.weights nothing.weights.h5", "expected imagenet, hf://owner/repo"),
        ("train --data.scale_min 3", "scale_min: expected at most scale_max (1.25)"),
        ("train --data.dir nowhere", "data.dir: expected a folder that python -m zoo.detection"),
        ("train --data.dir data", "data.dir: expected shards. Received: no data/train-*"),
        ("train --optimizer.decay_at 0.9,0.5", "expected ascending numbers between 0 and 1"),
        (
            "train --optimizer.decay_at [nan]",
            "optimizer: expected JSON of finite numbers. Received",
        ),
        ("train --optimizer.decay_at [NaN]", "Input should be a finite number"),
        ("train --training.steps 10", "warmup_steps: expected fewer than training.steps (10)"),
        ("train --model.heads {decoder: --data.dir data", "model.heads: expected YAML"),
        ("train --data.dir data --model.heads rpn_head={filters:3}", "Allowed: num_convs"),
        ("train --data.dir boxes --model.heads include_mask=true", "the data have boxes alone"),
        ("train --data.dir negative", "expected an intact dataset.json"),
        (
            "train --data.dir empty",
            "the 1 train images of empty/dataset.json. Received: 0",
        ),
        ("train --data.dir garbage", "expected intact shards. Received: garbage/train-0.tfrecord"),
        ("train --strategy mirrored --tpu local", "tpu: not used by strategy=mirrored"),
        ("train --output_dir damaged --data.dir data", "damaged holds a finished run"),
        ("evaluate", "run"),
        ("evaluate --run nowhere", "expected the folder of a finished run. Received: 'nowhere'"),
        ("evaluate --run unfinished", "expected the folder of a finished run"),
        ("evaluate --run damaged --data.dir data", "expected the metrics.json of a detector"),
        (
            "export --run untested --quantize int8",
            "quantize: expected none: detectors are exported",
        ),
        ("export --run damaged", "expected the metrics.json of a detector"),
        ("export --run untested", "metrics.json (test.box: Field required"),
        ("export --run huge", "metrics.json (categories.1000000000000.[key]: Input should be less"),
        ("predict --run damaged nothing.jpg", "photos: expected an image or a folder"),
        ("predict --run damaged text.jpg", "unreadable image files: text.jpg"),
        ("predict --run damaged a.jpg --output a.gif", "expected a file named .png or .json"),
        ("predict --run damaged a.jpg", "expected the metrics.json of a detector"),
        (f"{CONVERT} nothing.json --val_annotations empty.json", "a JSON file of annotations"),
        (f"{CONVERT} empty.json --val_annotations empty.json", "images: Field required"),
        ("shapes --output .", "output: expected a new folder"),
        ("detection.convert --output new", "train_images"),
        ("shapes --output data", "output: expected a new folder"),
        ("shapes --output a.jpg", "a.jpg"),
        ("shapes --output new --size 4000", "less than or equal to 400"),
        ("cost resnet51", "did you mean 'resnet50'"),
        ("cost resnet50 --categories 1000000000", "less than or equal to 10000"),
    ],
)
def test_one_line(here, command, message, capsys):
    line = command.replace("train ", TRAIN, 1)
    assert message in commands.refuse(line, capsys, **TOOLS)
