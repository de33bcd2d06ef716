"""The command that finds objects in images."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from zoo.detection import predict


def test_objects_are_printed_and_written(here, modules, capsys):
    """With a detector that finds two objects in every image."""

    def objects(arguments: Sequence[str]) -> None:
        predict.run(predict.PredictConfig.from_command_line(arguments))

    found = [
        {"name": "cat", "category_id": 3, "bbox": [1.0, 2.0, 30.4, 40.6], "score": 0.9},
        {"name": "dog", "category_id": 5, "bbox": [0.0, 0.0, 5.0, 5.0], "score": 0.4},
    ]
    asked = []

    class Finds(SimpleNamespace):
        def __call__(self, image, threshold):
            asked.append((image.shape, threshold))
            return found

    detector = Finds(image_size=32, name="resnet")
    source = SimpleNamespace(choose=lambda _: SimpleNamespace(load=lambda: detector))
    modules(**{"zoo.detection.detector": source})
    photos = ["flower.png", "Peking, 2019.jpg"]
    for photo in photos:
        Image.new("RGB", (40, 30)).save(photo)
    objects([*photos, "--run", "run", "--output", "found.json"])
    assert asked == [((30, 40, 3), 0)] * 2
    lines = list(filter(None, capsys.readouterr().out.splitlines()))
    cat = "   90.0%  cat, 30 x 41 pixels at (1, 2)"
    assert lines == [photos[0], cat, photos[1], cat, "wrote found.json"]
    written = json.loads(Path("found.json").read_text())
    assert [(one["image_id"], one["file_name"], one["category_id"]) for one in written] == [
        (number, photo, category) for number, photo in enumerate(photos, 1) for category in (3, 5)
    ]
    Image.new("L", (65, 1)).save("long.png")
    with pytest.raises(ValueError, match=r"^photos: long.png: expected images less than 64 times"):
        objects(["long.png", "--run", "run"])
