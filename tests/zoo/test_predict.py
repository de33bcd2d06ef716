"""The command that names what images show."""

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_images

from zoo.inference.photos import check_replaces_none
from zoo.inference.predictions import ClassScore
from zoo.inference.source.run import Run
from zoo.predict import classification as predict


def main(arguments: Sequence[str], choose=None) -> None:
    predict.run(predict.PredictConfig.from_command_line(arguments), choose)


@pytest.fixture
def here(here) -> Path:
    """The current folder, with two images."""
    china, flower = (Image.fromarray(image) for image in load_sample_images().images)
    china.resize((160, 107)).save("Peking, 2019.jpg")
    flower.resize((107, 160)).save("flower.png")
    return here


def test_predictions_are_printed_and_written(here, run, capsys):
    photos = ["Peking, 2019.jpg", "flower.png"]
    Path("settings.yaml").write_text(f"run: {run}\ntop: 2\noutput: new/predictions.json\n")
    main(["--config", "settings.yaml", "--", *photos])
    printed = capsys.readouterr().out

    written = json.loads(Path("new/predictions.json").read_text("utf-8"))
    assert (written["run"], written["top"]) == (str(run), 2)
    assert [entry["photo"] for entry in written["photos"]] == photos
    predictions = Run(run).load()([here / name for name in photos], top=2)
    for entry, expected in zip(written["photos"], predictions, strict=True):
        assert [tuple(guess.values()) for guess in entry["top"]] == [
            (guess.index, guess.name, pytest.approx(guess.probability, rel=1e-5))
            for guess in expected
        ]
        for guess in expected:
            assert re.search(rf"^ +{guess.probability:.1%} .* {guess.name}$", printed, re.MULTILINE)
        assert entry["photo"] in printed.splitlines()
    assert printed.splitlines()[-1] == "wrote new/predictions.json"


def test_folders_are_searched(here, run, capsys):
    (here / "1" / "deeper").mkdir(parents=True)
    for name in ("1/deeper/b.PNG", "1/a.jpeg", "1/.hidden.jpg", "1/d.webp"):
        Image.new("L", (30, 20), 200).save(name)
    Path("1/notes.txt").write_text("no image")
    Path("1/c.heic").write_bytes(b"not read")
    Path("1/folder.jpg").mkdir()
    main(["1", "--run", str(run), "--top", "50", "--output", "predictions.json"])
    written = json.loads(Path("predictions.json").read_text())["photos"]
    assert [entry["photo"] for entry in written] == ["1/a.jpeg", "1/d.webp", "1/deeper/b.PNG"]
    for entry in written:
        assert sorted(guess["name"] for guess in entry["top"]) == list("0123456789")
    printed = capsys.readouterr()
    assert printed.out.count("%  ") == 30
    others, hidden = [line for line in printed.err.splitlines() if "left out" in line]
    assert others.startswith("2 files left out, which are none of .jpg, .jpeg, .png, .webp, ")
    assert others.endswith(": 1/c.heic, 1/notes.txt")
    assert hidden == "1 hidden or system files and folders left out: 1/.hidden.jpg"


class Red:
    """Takes every image for red."""

    name, precision, batch_size = "red", None, 32

    def load(self):
        return self

    def computing_in(self, precision):
        self.precision = precision
        return self

    def views(self, photos):
        return photos

    def predict_views(self, views, top):
        return ([ClassScore(0, "red\x1b[2J", 1.0)] for _ in views)

    def view(self, photo):
        return np.zeros((4, 4, 3))


RED = Red()


@pytest.fixture
def red(here) -> Callable:
    """Runs the command with a classifier that takes every image for red."""
    return lambda arguments: main(arguments, lambda _: RED)


def test_many_images_take_several_grids(red, here, figures, capsys):
    (here / "many").mkdir()
    for i in range(201):
        Image.new("L", (2, 2)).save(here / "many" / f"{i:03}.png")
    red(["many", "--run", "run", "--output", "new/predictions.png"])
    names = ["new/predictions.png", "new/predictions-2.png", "new/predictions-3.png"]
    assert all(Path(name).is_file() for name in names)
    shown = [[axis.get_title(loc="left") for axis in figure.axes] for figure in figures]
    assert [list(filter(None, one)) for one in shown] == [
        [f"{i:03}.png" for i in range(*ends)] for ends in ((0, 100), (100, 200), (200, 201))
    ]
    assert {one.get_suptitle() for one in figures} == {"red: most probable classes"}
    assert capsys.readouterr().out.splitlines()[-3:] == [f"wrote {name}" for name in names]


@pytest.mark.parametrize(("photos", "grids"), [(1, 1), (99, 1), (100, 1), (101, 2), (200, 2)])
def test_as_many_grids_as_needed(photos, grids):
    names = ["a/b.png", "a/b-2.png"][:grids]
    assert list(map(str, predict.outputs_of(Path("a/b.png"), photos))) == names
    assert predict.outputs_of(Path("a/b.json"), photos) == [Path("a/b.json")]
    assert predict.outputs_of(None, photos) == []


def test_the_precision_is_that_of_the_settings(red):
    for arguments, precision in (([], None), (["--precision", "mixed_bfloat16"], "mixed_bfloat16")):
        red(["flower.png", "--run", "run", *arguments])
        assert RED.precision == precision


def test_no_image_is_replaced(tmp_path):
    photos = [tmp_path / name for name in "abc"]
    for photo in photos:
        photo.touch()
        photo.with_suffix(".link").symlink_to(photo)
    for output in (*photos, *tmp_path.glob("*.link")):
        with pytest.raises(ValueError, match="is one of the images; expected another file"):
            check_replaces_none(output, photos)
    check_replaces_none(tmp_path / "other", photos)
    check_replaces_none(None, photos)


@pytest.mark.parametrize("output", ["predictions.json", "predictions.png"])
def test_a_name_that_is_not_utf_8_costs_no_prediction(red, here, capsys, output):
    odd = [os.fsdecode(b"caf\xe9.png"), "\x1b[2J.png", "two\nlines.png", 'a "b".png']
    (here / "odd").mkdir()
    for name in odd:
        Image.new("L", (2, 2)).save(here / "odd" / name)
    arguments = ["flower.png", f"odd/{odd[0]}", "odd", "--run", "run", "--output", output]
    red(arguments)
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.endswith(".png")] == [
        "flower.png",
        r"odd/caf\udce9.png",
        r"odd/\x1b[2J.png",
        'odd/a "b".png',
        r"odd/caf\udce9.png",
        r"odd/two\nlines.png",
        *(["wrote predictions.png"] if output == "predictions.png" else []),
    ]
    assert "\x1b" not in printed
    assert Path(output).is_file()


@pytest.mark.usefixtures("here")
def test_reading_goes_on_where_checking_ended(run):
    """A file that breaks in between still gives one line."""

    def breaking(_):
        Path("flower.png").write_bytes(b"broken")
        return Run(run)

    with pytest.raises(ValueError, match=r"^unreadable image: flower\.png .*$"):
        main(["flower.png", "--run", str(run)], breaking)
