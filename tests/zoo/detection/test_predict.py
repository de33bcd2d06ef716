"""The command that finds objects in images: they are printed, drawn into images, and written."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from support.detectors import turned

from zoo.detection import objects, predict

CAT = {"name": "cat", "category_id": 3, "bbox": [1.0, 2.0, 30.4, 40.6], "score": 0.5}
DOG = {"name": "dog\x1b", "category_id": 5, "bbox": [0.0, 0.0, 5.0, 5.0], "score": 0.4999}
ASKED = []


class Finds(SimpleNamespace):
    """A detector that finds two objects in every image."""

    def __call__(self, image, threshold):
        ASKED.append((image.shape, threshold))
        return [CAT, DOG]


@pytest.fixture
def command(here, modules) -> Callable[[str], None]:
    """Runs the command with that detector, in an empty folder."""
    source = SimpleNamespace(load=lambda: Finds(image_size=32, name="A net"))
    modules(**{"zoo.detection.detector": SimpleNamespace(choose=lambda _: source)})

    def run(*arguments: str) -> None:
        predict.run(predict.PredictConfig.from_command_line([*arguments, "--run", "run"]))

    return run


def test_objects_are_printed_from_a_score_on_and_written_whatever_it_is(command, capsys):
    ASKED.clear()
    photos = ["flower.png", "Peking, 2019.jpg"]
    for photo in photos:
        Image.new("RGB", (40, 30)).save(photo)
    command(*photos, "--output", "found.json")
    assert ASKED == [((30, 40, 3), 0)] * 2
    lines = list(filter(None, capsys.readouterr().out.splitlines()))
    cat = "   50.0%  cat, 30 x 41 pixels at (1, 2)"
    assert lines == [photos[0], cat, photos[1], cat, "wrote found.json"]
    written = json.loads(Path("found.json").read_text())
    assert [(one["image_id"], one["file_name"], one["category_id"]) for one in written] == [
        (number, photo, category) for number, photo in enumerate(photos, 1) for category in (3, 5)
    ]
    assert "name" not in written[0]
    command(photos[0], "--threshold", "0.4")
    assert r"  dog\x1b, 5 x 5" in capsys.readouterr().out
    Image.new("L", (65, 1)).save("long.png")
    with pytest.raises(ValueError, match=r"^photos: long.png: expected images less than 64 times"):
        command("long.png")


def test_grid_has_upright_images_with_the_objects_from_the_threshold_on(command, figures):
    pixels = np.zeros((60, 80, 3), "uint8")
    pixels[:, :40] = 255
    Image.fromarray(pixels).save("a.png")
    Image.fromarray(pixels).save("b.png", exif=turned(6))
    for threshold, names in (("0.3", [r"dog\x1b 50%", "cat 50%"]), ("0.5", ["cat 50%"])):
        command("a.png", "b.png", "--output", "out.png", "--threshold", threshold)
        title = f"A net: objects with a score from {float(threshold):.0%}"
        assert figures[-1].get_suptitle() == title
        one, other = figures[-1].axes
        assert [axis.get_title(loc="left") for axis in (one, other)] == ["a.png", "b.png"]
        assert [text.get_text() for text in other.texts] == names
        np.testing.assert_array_equal(one.images[0].get_array(), pixels)
        upright = other.images[0].get_array()
        assert (upright.shape, upright[:40].min(), upright[40:].max()) == ((80, 60, 3), 255, 0)
        assert Path("out.png").is_file()


def test_grid_has_room_for_100_images():
    photos = [Path("a.jpg")] * 101
    objects.check_output(Path("a.png"), photos[1:])
    objects.check_output(Path("a.json"), photos)
    objects.check_output(None, photos)
    with pytest.raises(ValueError, match=r"photos: expected at most 100 .*: 101 \(write .json\)"):
        objects.check_output(Path("a.png"), photos)
