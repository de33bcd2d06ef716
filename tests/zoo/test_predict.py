"""The command that names what images show."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_images
from support import commands

from lambda_keras.applications.preprocessing import imagenet_classes, preprocessing_of
from zoo.inference.classifier import Classifier
from zoo.inference.predictions import ClassScore, Prediction
from zoo.inference.source import kinds
from zoo.inference.source.weights import Weights
from zoo.predict import __main__ as predict
from zoo.predict.classification import write_grid
from zoo.registry import create_model

fail = partial(commands.fail, predict.main)

LABELS = "grüner Tempel\nflower, orange\ndigit\n"


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> str:
    """Random weights of lambda_resnet14 for three classes."""
    path = tmp_path_factory.mktemp("weights") / "random.weights.h5"
    keras.utils.set_random_seed(1)
    create_model("lambda_resnet14", classes=3, input_shape=(32, 32, 3)).save_weights(path)
    return str(path)


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The current folder, with labels.txt and two images."""
    monkeypatch.chdir(tmp_path)
    china, flower = (Image.fromarray(image) for image in load_sample_images().images)
    china.resize((160, 107)).save("Peking, 2019.jpg")
    flower.resize((107, 160)).save("flower.png")
    Path("labels.txt").write_text(LABELS, encoding="utf-8")
    return tmp_path


def test_predictions_are_printed_and_written(here, weights, capsys):
    photos = ["Peking, 2019.jpg", "flower.png"]
    options = ["--model", "lambda_resnet14", "--weights", weights, "--labels", "labels.txt"]
    predict.main([*options, *photos, "--top", "2", "--output", "new/predictions.json"])
    printed = capsys.readouterr().out

    written = json.loads(Path("new/predictions.json").read_text("utf-8"))
    assert (written["model"], written["weights"]) == ("lambda_resnet14", weights)
    assert [entry["photo"] for entry in written["photos"]] == photos
    classifier = Weights("lambda_resnet14", weights, LABELS.splitlines()).load()
    predictions = classifier.predict_files([here / name for name in photos], top=2)
    for entry, prediction in zip(written["photos"], predictions, strict=True):
        assert [tuple(guess) for guess in (g.values() for g in entry["top"])] == [
            (guess.index, guess.name, pytest.approx(guess.probability, rel=1e-5))
            for guess in prediction.top
        ]
        for guess in prediction.top:
            assert re.search(rf"^ +{guess.probability:.1%} .* {guess.name}$", printed, re.MULTILINE)
        assert entry["photo"] in printed.splitlines()
    assert printed.splitlines()[-1] == "wrote new/predictions.json"


def test_imagenet_names_are_the_default(here, tmp_path, capsys):
    weights = tmp_path / "random.weights.h5"
    create_model("lambda_resnet14", input_shape=(32, 32, 3)).save_weights(weights)
    predict.main(f"flower.png --model lambda_resnet14 --weights {weights}".split())
    lines = [line for line in capsys.readouterr().out.splitlines() if "%  " in line]
    assert len(lines) == 5
    names = {name.replace("_", " ") for _, name in imagenet_classes()}
    assert {re.split(" {2,}", line)[-1] for line in lines} <= names


def test_folders_are_searched_and_runs_predict(here, run, capsys):
    (here / "1" / "deeper").mkdir(parents=True)
    for name in ("1/deeper/b.PNG", "1/a.jpeg", "1/.hidden.jpg"):
        Image.new("L", (30, 20), 200).save(name)
    Path("1/notes.txt").write_text("no image")
    Path("1/c.heic").write_bytes(b"not read")
    Image.new("L", (30, 20), 200).save("1/d.webp")
    Path("1/folder.jpg").mkdir()
    predict.main(["1", "--run", str(run), "--top", "50", "--output", "predictions.json"])
    written = json.loads(Path("predictions.json").read_text())
    assert written["run"] == str(run)
    assert [entry["photo"] for entry in written["photos"]] == [
        "1/a.jpeg",
        "1/d.webp",
        "1/deeper/b.PNG",
    ]
    for entry in written["photos"]:
        assert sorted(guess["name"] for guess in entry["top"]) == list("0123456789")
        assert sum(guess["probability"] for guess in entry["top"]) == pytest.approx(1)
    printed = capsys.readouterr()
    assert printed.out.count("%  ") == 30
    others, hidden = [line for line in printed.err.splitlines() if "left out" in line]
    assert others.startswith("2 files left out, which are none of .jpg, .jpeg, .png, .webp, ")
    assert others.endswith(": 1/c.heic, 1/notes.txt")
    assert hidden == "1 hidden or system files and folders left out: 1/.hidden.jpg"


def draw(monkeypatch, predictions: list[Prediction]) -> tuple[np.ndarray, list[str]]:
    """Writes predictions.png; returns its pixels and the texts in it."""
    from zoo.plots import style

    texts, save = [], style.save_figure

    def spy(figure, path):
        figures = [figure._suptitle, *(t for a in figure.axes for t in [a._left_title, *a.texts])]
        texts.extend(text.get_text() for text in figures)
        save(figure, path)

    monkeypatch.setattr(style, "save_figure", spy)
    classifier = Classifier("lambda_resnet14", None, preprocessing_of("lambda_resnet14", 32), [])
    write_grid(classifier, predictions, Path("predictions.png"))
    with Image.open("predictions.png") as grid:
        return np.asarray(grid.convert("RGB")), texts


@pytest.mark.parametrize(("count", "top"), [(1, 1), (2, 5), (3, 12)])
def test_grid(here, monkeypatch, count, top):
    red = here / r"price $\oops$.png"  # no formula, and wrong as one
    Image.new("RGB", (50, 40), (255, 0, 0)).save(red)
    guesses = [ClassScore(i, rf"class {i} of $\oops$", 0.5**i) for i in range(top)]
    pixels, texts = draw(monkeypatch, [Prediction(red, guesses)] * count)
    is_red = (pixels == (255, 0, 0)).all(-1).sum()
    one = is_red / count
    assert one > 200**2, "the images are small"
    assert texts[0].startswith("lambda_resnet14")
    assert texts.count(red.name) == count
    for guess in guesses:
        assert texts.count(guess.name) == count
        assert f"{guess.probability:.1%}" in texts


def test_grid_of_the_command(here, weights):
    options = ["--model", "lambda_resnet14", "--weights", weights, "--labels", "labels.txt"]
    predict.main(["Peking, 2019.jpg", *options, "--output", "predictions.png"])
    with Image.open("predictions.png") as grid:
        assert (grid.format, grid.width > grid.height > 300) == ("PNG", True)


class Red:
    """Takes every image for red."""

    name = "red"

    def load(self):
        return self

    def predict_files(self, photos, top):
        return (Prediction(photo, [ClassScore(0, "red\x1b[2J", 1.0)]) for photo in photos)

    def view(self, photo):
        return np.zeros((4, 4, 3))


def test_many_images_take_several_grids(here, monkeypatch, capsys):
    drawn = []
    monkeypatch.setattr(kinds, "choose", lambda _: Red())
    monkeypatch.setattr(predict, "write_grid", lambda *call: drawn.append(call[1:]))
    (here / "many").mkdir()
    for i in range(201):
        Image.new("L", (2, 2)).save(here / "many" / f"{i:03}.png")
    predict.main(["many", "--run", "run", "--output", "new/predictions.png"])
    names = ["new/predictions.png", "new/predictions-2.png", "new/predictions-3.png"]
    assert [str(path) for _, path in drawn] == names
    assert [[prediction.photo.stem for prediction in predictions] for predictions, _ in drawn] == [
        [f"{i:03}" for i in range(begin, end)] for begin, end in ((0, 100), (100, 200), (200, 201))
    ]
    assert capsys.readouterr().out.splitlines()[-3:] == [f"wrote {name}" for name in names]


@pytest.mark.parametrize("output", ["predictions.json", "predictions.png"])
def test_a_name_that_is_not_utf_8_costs_no_prediction(here, monkeypatch, capsys, output):
    monkeypatch.setattr(kinds, "choose", lambda _: Red())
    odd = [os.fsdecode(b"caf\xe9.png"), "\x1b[2J.png", "two\nlines.png", 'a "b".png']
    (here / "odd").mkdir()
    for name in odd:
        Image.new("L", (2, 2)).save(here / "odd" / name)
    arguments = ["flower.png", f"odd/{odd[0]}", "odd", "--run", "run", "--output", output]
    predict.main(arguments)
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


SOURCE = "--model lambda_resnet14 --weights w.weights.h5"


@pytest.mark.usefixtures("here", "no_model")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: PHOTOS"),
        ("flower.png", "expected --run, or --model and --weights"),
        ("flower.png --weights imagenet", "expected --run, or --model and --weights"),
        ("flower.png --model lambda_resnet14", "expected --weights imagenet, or a file of weights"),
        ("flower.png --model lambda_resnet15 --weights imagenet", "did you mean 'lambda_resnet1"),
        ("flower.png --model lambda_resnet14 --weights w.h5", "existing file. Received: 'w.h5'"),
        ("flower.png --run runs --model lambda_resnet14", "--run already says which model"),
        ("flower.png --run runs --labels labels.txt", "--run already says which model"),
        (f"missing.jpg {SOURCE}", "photos: expected an image or a folder. Received: 'missing"),
        (f"empty {SOURCE}", "photos: no images (.jpg, .jpeg, .png, .webp, .b"),
        (
            f"labels.txt {SOURCE}",
            "unreadable image files: labels.txt (not an image",
        ),
        (f"flower.png cut.jpg {SOURCE}", "unreadable image files: cut.jpg ("),
        (f"flower.png {SOURCE} --output a.jpg", "expected a file named .png or .json. Received: '"),
        (f"flower.png {SOURCE} --output empty", "expected a file to write to. Received: '"),
        (f"flower.png {SOURCE} --output labels.txt/a.png", "expected a file to write to"),
        (f"flower.png {SOURCE} --output flower.png", "flower.png is one of the images"),
        (f"many {SOURCE} --output many/0.png", "many/0-2.png is one of the images"),
        (f"flower.png {SOURCE} --labels none.txt", "labels: expected a text file. Received: 'none"),
        (f"flower.png {SOURCE} --labels gap.txt", "in every line of 'gap.txt'"),
        (f"flower.png {SOURCE} --labels empty.txt", "in every line of 'empty.txt'"),
        (f"flower.png {SOURCE} --labels flower.png", "labels: expected text in UTF-8"),
        (f"flower.png {SOURCE} --top 0", "top: "),
        (f"flower.png {SOURCE} --tops 3", "did you mean '--top'?"),
    ],
)
def test_bad_input_ends_before_the_model(monkeypatch, capsys, arguments, message):
    Path("w.weights.h5").touch()
    Path("empty").mkdir()
    Path("many").mkdir()
    for i in range(100):
        Path(f"many/{i}.jpg").touch()
    Path("many/0-2.png").touch()
    Path("cut.jpg").write_bytes(Path("Peking, 2019.jpg").read_bytes()[:1500])
    Path("gap.txt").write_text("cat\n\ndog\n")
    Path("empty.txt").touch()
    before = Path("flower.png").read_bytes()
    assert message in fail(monkeypatch, capsys, *arguments.split())
    assert Path("flower.png").read_bytes() == before


@pytest.mark.usefixtures("here")
def test_a_run_that_is_not_finished(monkeypatch, capsys):
    line = fail(monkeypatch, capsys, "flower.png", "--run", "nowhere")
    assert "expected the folder of a finished run. Received: 'nowhere'" in line


@pytest.mark.usefixtures("here")
def test_labels_that_are_not_those_of_the_weights(monkeypatch, capsys, weights):
    Path("labels.txt").write_text("cat\ndog\n")
    options = ["--model", "lambda_resnet14", "--weights", weights, "--labels", "labels.txt"]
    assert "do not fit the model" in fail(monkeypatch, capsys, "flower.png", *options)


@pytest.mark.usefixtures("here")
def test_settings_from_a_file(weights, capsys):
    lines = ["model: lambda_resnet14", f"weights: {weights}", "labels: labels.txt", "top: 1"]
    Path("settings.yaml").write_text("\n".join(lines))
    predict.main(["--config", "settings.yaml", "--", "flower.png"])
    assert capsys.readouterr().out.count("%  ") == 1


def test_help_does_not_wait_for_keras():
    script = (
        "import sys; from zoo.predict import __main__ as predict\n"
        "try: predict.main(['--help'])\n"
        "except SystemExit: sys.exit('keras' in sys.modules)"
    )
    root = Path(predict.__file__).parents[1]
    result = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True)
    assert result.returncode == 0
    for setting in ("PHOTOS", "--model", "--weights", "--run", "--labels", "--top", "--output"):
        assert setting in result.stdout.decode()


@pytest.mark.usefixtures("here")
def test_reading_goes_on_where_checking_ended(weights, monkeypatch, capsys):
    """A file that breaks in between still gives one line."""
    monkeypatch.setattr(predict, "check_readable", lambda _: None)
    Path("flower.png").write_bytes(b"broken")
    options = ["--model", "lambda_resnet14", "--weights", weights, "--labels", "labels.txt"]
    assert "unreadable image: flower.png" in fail(monkeypatch, capsys, "flower.png", *options)
