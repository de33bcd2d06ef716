"""Bad settings and folders of the commands about detectors: one line, before any work."""

import json
from pathlib import Path

import commands
import pytest
from PIL import Image

from zoo.detection import convert, cost, evaluate, export, predict, shapes, train
from zoo.detection.config import DetectionConfig

COMMANDS = {
    "train": train.main,
    "evaluate": evaluate.main,
    "export": export.main,
    "predict": predict.main,
    "convert": convert.main,
    "shapes": shapes.main,
    "cost": cost.main,
}
CONVERT = "convert --train_images . --val_images . --output new --train_annotations"


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The current folder, with some of everything."""
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (40, 30)).save("a.jpg")
    Path("text.jpg").write_text("no image")
    Path("empty.json").write_text("{}")
    Path("data").mkdir()
    part = {"images": 1, "objects": 1}
    Path("data/dataset.json").write_text(
        json.dumps({"categories": {"1": "disc"}, "train": part, "val": part})
    )
    for name in ("unfinished", "damaged", "classifier"):
        Path(name).mkdir()
        settings = DetectionConfig(output_dir=Path(name)).to_yaml()
        Path(name, "config.yaml").write_text(settings)
    Path("damaged/metrics.json").write_text("{}")
    Path("classifier/config.yaml").write_text("training: {epochs: 3}\n")
    Path("classifier/metrics.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("train --model.name resnet51", "did you mean 'resnet50'"),
        ("train --model.image_size 100", "multiple of 64"),
        ("train --model.overrides include_top=true", "include_top"),
        ("train --model.weights nothing.weights.h5", "expected imagenet, hf://owner/repo"),
        ("train --data.scale_min 3", "scale_min: expected at most scale_max (1.25)"),
        ("train --data.dir nowhere", "data.dir: expected a folder that python -m zoo.detection"),
        ("train --data.dir data", "data.dir: expected shards. Received: no data/train-*"),
        ("train --optimizer.decay_at 0.9,0.5", "expected ascending numbers between 0 and 1"),
        ("train --training.steps 10", "warmup_steps: expected fewer than training.steps (10)"),
        ("train --training.precision float16", "Allowed: float32, mixed_bfloat16"),
        ("train --training.epochs 3", "no such setting"),
        ("train --strategy mirrored --tpu local", "tpu: not used by strategy=mirrored"),
        ("train --output_dir damaged --data.dir data", "damaged holds a finished run"),
        ("evaluate", "run"),
        ("evaluate --run nowhere", "expected the folder of a finished run. Received: 'nowhere'"),
        ("evaluate --run unfinished", "expected the folder of a finished run"),
        ("evaluate --run classifier", "training.epochs: no such setting"),
        ("evaluate --run damaged --dir data", "expected the metrics.json of a detector"),
        ("export --run damaged", "expected the metrics.json of a detector"),
        ("predict --run damaged nothing.jpg", "photos: expected a photograph or a folder"),
        ("predict --run damaged text.jpg", "unreadable image files: text.jpg"),
        ("predict --run damaged a.jpg --output a.gif", "expected a file named .png or .json"),
        ("predict --run damaged a.jpg --threshold 2", "less than or equal to 1"),
        ("predict --run damaged a.jpg", "expected the metrics.json of a detector"),
        (f"{CONVERT} nothing.json --val_annotations empty.json", "a JSON file of annotations"),
        (f"{CONVERT} empty.json --val_annotations empty.json", "a list of objects 'images'"),
        ("shapes --output .", "output: expected a new folder"),
        ("convert --output new", "train_images"),
        ("shapes --output data", "output: expected a new folder"),
        ("shapes --output a.jpg", "a.jpg"),
        ("shapes --output new --size 4000", "less than or equal to 400"),
        ("cost resnet51", "did you mean 'resnet50'"),
    ],
)
def test_one_line(here, command, message, monkeypatch, capsys):
    before = sorted(here.rglob("*"))
    name, *arguments = command.split()
    assert message in commands.fail(COMMANDS[name], monkeypatch, capsys, *arguments)
    assert sorted(here.rglob("*")) == before
