"""The command that measures accuracy: its settings, its errors, and what it leaves behind."""

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from support import commands
from support.damage import flip

from lambda_keras.applications.preprocessing import Preprocessing, preprocessing_of
from zoo import run_folder
from zoo.config import TrainConfig
from zoo.data.load import load_data
from zoo.evaluate import __main__ as evaluate
from zoo.evaluate import metrics
from zoo.evaluate.classification import EvaluateConfig, measure
from zoo.evaluate.report import worst_first
from zoo.files import write_json
from zoo.inference.source import base
from zoo.inference.source.run import Run

fail = partial(commands.fail, evaluate.main)
DIGITS = tuple("0123456789")
OTHER_IMAGES = r"images of the training, .* test images \(7, not 6\)"


def write_run(folder: Path, class_names: tuple[str, ...], data: dict) -> Path:
    """A finished run whose model knows nothing; its averages are other than its raw weights."""
    config = TrainConfig(output_dir=folder, model={"image_size": 16}, data=data)
    run_folder.start(config)
    new_model(len(class_names), 1).save(folder / run_folder.MODEL)
    new_model(len(class_names), 2).save_weights(folder / run_folder.RAW_WEIGHTS)
    counts = {"test": {"accuracy": 0.5}, "test_images": 6, "training_images": 14}
    run_folder.write_metrics(folder, {"class_names": list(class_names), **counts})
    return folder


def new_model(classes: int, seed: int) -> keras.Model:
    """A model that is built in no time, in place of the one in a run folder."""
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((16, 16, 3))
    x = keras.layers.Flatten()(inputs)
    return keras.Model(inputs, keras.layers.Dense(classes, "softmax", name="predictions")(x))


@pytest.mark.parametrize("averaged", [True, False])
def test_a_run_on_its_own_test_images(tmp_path, capsys, averaged):
    run = write_run(tmp_path / "digits", DIGITS, {"batch_size": 50})
    options = [] if averaged else ["--averaged", "false"]
    evaluate.main(["--run", str(run), "--output", str(tmp_path / "new"), *options])
    written = json.loads((tmp_path / "new" / "evaluation.json").read_text("utf-8"))

    test = load_data(run_folder.load_config(run).data, 16).test
    images, labels, _ = next(iter(test.batches(test.count, 10)))
    probabilities = new_model(10, 1 if averaged else 2).predict(images, verbose=0)
    expected = {
        "loss": keras.losses.categorical_crossentropy(labels, probabilities),
        "top1": keras.metrics.categorical_accuracy(labels, probabilities),
        "top5": keras.metrics.top_k_categorical_accuracy(labels, probabilities, 5),
    }
    for name, values in expected.items():
        assert written[name] == pytest.approx(float(np.mean(values)), rel=1e-4)
    assert written["images"] == sum(entry["images"] for entry in written["classes"]) == 360
    assert written["settings"]["data"]["batch_size"] == 50
    assert [entry["name"] for entry in written["classes"]] == list(DIGITS)
    printed = capsys.readouterr().out
    for text in (f"{written['top5']:.4f}", f"{written['loss']:.4f}", "360", "images/s"):
        assert text in printed
    assert ("raw weights" in printed) != averaged
    assert printed.splitlines()[-1] == f"wrote {tmp_path}/new/evaluation.json and figures"


@pytest.mark.parametrize("resize", [{}, {"resize": "pad"}])
def test_images_are_preprocessed_as_those_of_the_weights(tmp_path, monkeypatch, resize):
    asked = []
    monkeypatch.setattr(base, "load_test_images", lambda *given: asked.append(given[2]) or 1 / 0)
    weights = tmp_path / "w.weights.h5"
    weights.touch()
    more = [part for name, value in resize.items() for part in (f"--data.{name}", value)]
    with pytest.raises(ZeroDivisionError):
        evaluate.main(["--model", "lambda_resnet14", "--weights", str(weights), *more])
    (seen,) = asked
    assert seen == replace(preprocessing_of("lambda_resnet14", seen.image_size), **resize)


def test_images_of_the_run_where_nothing_else_is_said(photos, tmp_path):
    data = {"source": "image_folder", "dir": str(photos), "test_fraction": 0.3, "batch_size": 5}
    run = write_run(tmp_path / "run", ("blue", "red"), data)
    _, one, *_ = measure(EvaluateConfig.from_command_line(["--run", str(run)]))
    assert (one.images, one.top5) == (6, None)
    for arguments, expected in {
        ("--data.dir", "others"): ("image_folder", "others", 5, 0.3),
        # Another source starts from the defaults.
        ("--data.source", "digits"): ("digits", None, 64, 0.2),
    }.items():
        found = EvaluateConfig.from_command_line(["--run", str(run), *arguments]).data
        assert (found.source, found.dir, found.batch_size, found.test_fraction) == expected
    tfds = write_run(tmp_path / "tfds", DIGITS, {"source": "tfds", "name": "imagenet2012"})
    for name, split in (("imagenet2012", "validation"), ("imagenet_a:0.1.0", "test")):
        arguments = ["--run", str(tfds), "--data.name", name]
        assert EvaluateConfig.from_command_line(arguments).data.test_split == split
    settings = tmp_path / "settings.yaml"
    settings.write_text(f"run: {run}\ndata:\n  test_fraction: 0.4\n")
    config = EvaluateConfig.from_command_line(["--config", str(settings)])
    assert (config.data.dir, config.data.test_fraction) == (str(photos), 0.4)


def test_images_of_the_training_are_refused_wherever_they_are(photos, here):
    """By their contents, or by their number where the run has noted no contents."""
    data = {"source": "image_folder", "dir": "photos", "test_fraction": 0.3, "batch_size": 5}
    run = write_run(here / "run", ("blue", "red"), data)
    write_json(run / run_folder.INDEX, load_data(run_folder.load_config(run).data, 16).index)
    Path("link").symlink_to("photos")
    shutil.copytree("photos", "copy")

    class Unloaded(Run):
        def load(self):
            return SimpleNamespace(preprocessing=Preprocessing(16, 1))

    source = Unloaded(run)

    def count(place):
        config = EvaluateConfig.from_command_line(["--run", str(run), "--data.dir", place]).data
        return source.load_with_images(config)[1].test.count

    places = ("photos", "./photos", "photos/", str(photos), "link", "copy")
    assert list(map(count, places)) == [6] * 6
    for folder in ("photos", "copy"):
        shutil.copy("photos/red/1.png", f"{folder}/red/new.png")
    for place in places:
        with pytest.raises(ValueError, match=OTHER_IMAGES):
            count(place)
    (run / run_folder.INDEX).unlink()
    with pytest.raises(ValueError, match=OTHER_IMAGES):
        count("copy")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--run RUN --data.batch 3", "did you mean '--data.batch_size'?"),
        ("--run RUN --output file/new", "Received: 'file/new' (file is a file, not a folder)"),
        ("--run PLAIN --averaged false", "has no other weights (raw.weights.h5)"),
        ("--run RUN --data.dir photos", "data: dir is for source=image_folder"),
        ("--run RUN --data.source image_folder --data.dir photos", "2 classes (blue, red"),
        ("--run OTHER", "expected the classes of lambda_resnet14, of which number 3 is 'III'. Rec"),
        ("--run HEADLESS", "expected 768 class_names, one for each output of the model"),
        ("--run BROKEN", "run: expected an intact model. Received: BROKEN/model.keras ("),
        ("--run FLIPPED", "run: expected an intact model. Received: FLIPPED/model.keras ("),
    ],
)
def test_bad_input_ends_before_the_work(photos, here, monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(metrics, "evaluate", lambda *_: pytest.fail("the work began"))
    Path("file").touch()
    name = arguments.split()[1]
    classes = (*"012", "III", *"456789") if name == "OTHER" else DIGITS
    file = write_run(Path(name), classes, {}) / run_folder.MODEL
    if name == "PLAIN":
        (Path(name) / run_folder.RAW_WEIGHTS).unlink()
    if name == "HEADLESS":
        model = new_model(10, seed=1)
        keras.Model(model.inputs, model.layers[-2].output).save(file)
    if name == "BROKEN":
        file.write_bytes(file.read_bytes()[:1000])
    if name == "FLIPPED":
        flip(file)
    assert message in fail(capsys, *arguments.split())
    assert not Path("file/new").exists()


def test_classes_without_images_are_not_the_worst():
    rows = [{"f1": value} for value in (None, 0.5, float("nan"), 0.0)]
    assert [row["f1"] for row in worst_first(rows, "f1")[:2]] == [0.0, 0.5]
