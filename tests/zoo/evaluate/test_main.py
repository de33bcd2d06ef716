"""The command that measures accuracy: its settings, its errors, and what it leaves behind."""

import io
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support import commands

from lambda_keras.applications.preprocessing import imagenet_classes, preprocessing_of
from zoo import run_folder
from zoo.config import TrainConfig
from zoo.data.load import load_data
from zoo.evaluate import __main__ as evaluate
from zoo.evaluate import metrics
from zoo.evaluate.classification import EvaluateConfig
from zoo.inference.source import base
from zoo.registry import create_model

fail = partial(commands.fail, evaluate.main)

DIGITS = tuple("0123456789")


def write_run(folder: Path, class_names: tuple[str, ...], data: dict, seed: int = 1) -> Path:
    """A finished run whose model knows nothing."""
    config = TrainConfig(output_dir=folder, model={"image_size": 16}, data=data)
    run_folder.start(config)
    new_model(len(class_names), seed).save(folder / run_folder.MODEL)
    counts = {"test": {"accuracy": 0.5}, "test_images": 2, "training_images": 2}
    run_folder.write_metrics(folder, {"class_names": list(class_names), **counts})
    return folder


def new_model(classes: int, seed: int) -> keras.Model:
    """A model that is built in no time, in place of the one in a run folder."""
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((16, 16, 3))
    x = keras.layers.Flatten()(inputs)
    return keras.Model(inputs, keras.layers.Dense(classes, "softmax", name="predictions")(x))


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    """Run on digits with averages: its raw weights are others."""
    folder = write_run(tmp_path_factory.mktemp("runs") / "digits", DIGITS, {"batch_size": 50})
    new_model(10, seed=2).save_weights(folder / run_folder.RAW_WEIGHTS)
    return folder


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> tuple[str, keras.Model]:
    """Random weights of lambda_resnet14 for ten classes, and the model that they are from."""
    path = tmp_path_factory.mktemp("weights") / "random.weights.h5"
    keras.utils.set_random_seed(1)
    model = create_model("lambda_resnet14", classes=10, input_shape=(16, 16, 3))
    model.save_weights(path)
    return str(path), model


def read(folder: str) -> dict:
    return json.loads((Path(folder) / "evaluation.json").read_text("utf-8"))


def expected(model: keras.Model, config: TrainConfig) -> dict[str, float]:
    """Results of Keras' own metrics."""
    test = load_data(config.data, 16).test
    images, labels = zip(*((x, y) for x, y, _ in test.batches(test.count, 10)), strict=True)
    probabilities = model.predict(images[0], verbose=0)
    crossentropy = keras.losses.categorical_crossentropy(labels[0], probabilities)
    top5 = keras.metrics.top_k_categorical_accuracy(labels[0], probabilities, 5)
    right = keras.metrics.categorical_accuracy(labels[0], probabilities)
    names = ("loss", "top1", "top5")
    return {
        name: pytest.approx(float(np.mean(values)), rel=1e-4)
        for name, values in zip(names, (crossentropy, right, top5), strict=True)
    }


@pytest.mark.parametrize("averaged", [True, False])
def test_a_run_on_its_own_test_images(digits, tmp_path, monkeypatch, capsys, averaged):
    monkeypatch.chdir(tmp_path)
    arguments = ["--run", str(digits), "--output", "new/evaluation"]
    evaluate.main(arguments if averaged else [*arguments, "--averaged", "false"])
    written = read("new/evaluation")
    figures = expected(new_model(10, 1 if averaged else 2), run_folder.load_config(digits))
    assert {name: written[name] for name in figures} == figures
    assert written["images"] == sum(entry["images"] for entry in written["classes"]) == 360
    assert written["settings"]["data"]["batch_size"] == 50
    assert [entry["name"] for entry in written["classes"]] == list(DIGITS)
    wrong = sum(pair["images"] for pair in written["confusions"])
    assert wrong == round(360 * (1 - written["top1"]))
    assert written["calibration"] is None
    assert [row["target"] for row in written["thresholds"]] == [0.9, 0.95, 0.99]
    with Image.open("new/evaluation/confusion.png") as picture:
        assert min(picture.size) > 500
    printed = capsys.readouterr().out
    for text in (f"{written['top5']:.4f}", f"{written['loss']:.4f}", "360", "images/s"):
        assert text in printed
    assert ("raw weights" in printed) != averaged
    assert printed.splitlines()[-1] == "wrote new/evaluation/evaluation.json and figures"


def test_a_trained_run_is_as_good_as_its_own_test(run, tmp_path):
    evaluate.main(["--run", str(run), "--output", str(tmp_path)])
    metrics = json.loads((run / run_folder.METRICS).read_text())
    written = read(tmp_path)
    for name, key in (("top1", "accuracy"), ("top5", "top5_accuracy")):
        assert written[name] == pytest.approx(metrics["test"][key], abs=1e-6)


def test_weights(weights, digits, tmp_path, capsys):
    path, model = weights
    arguments = ["--model", "lambda_resnet14", "--weights", path, "--image_size", "16"]
    evaluate.main([*arguments, "--output", str(tmp_path), "--data.batch_size", "360"])
    written = read(tmp_path)
    figures = expected(model, run_folder.load_config(digits))
    assert {name: written[name] for name in figures} == figures
    assert "images/s" not in capsys.readouterr().out, "the only batch was that of compiling"


@pytest.mark.parametrize("resize", [{}, {"resize": "pad"}])
def test_images_are_preprocessed_as_those_of_the_weights(weights, monkeypatch, resize):
    asked = []
    monkeypatch.setattr(
        base, "load_data", lambda *_, preprocessing: asked.append(preprocessing) or 1 / 0
    )
    more = [part for name, value in resize.items() for part in (f"--data.{name}", value)]
    with pytest.raises(ZeroDivisionError):
        evaluate.main(["--model", "lambda_resnet14", "--weights", weights[0], *more])
    assert asked == [replace(preprocessing_of("lambda_resnet14", 32), **resize)]


def test_images_of_the_run_where_nothing_else_is_said(photos, tmp_path):
    run = tmp_path / "run"
    data = {"source": "image_folder", "dir": str(photos), "test_fraction": 0.3, "batch_size": 5}
    run = write_run(run, ("blue", "red"), data)
    evaluate.main(["--run", str(run), "--output", str(tmp_path / "1")])
    one = read(tmp_path / "1")
    assert (one["images"], one["top5"]) == (6, None)

    shutil.copytree(photos, tmp_path / "others")
    for name in ("blue", "red"):
        (tmp_path / "others" / name / "0.jpg").unlink()
    arguments = ["--data.dir", str(tmp_path / "others"), "--data.test_fraction", "0.5"]
    evaluate.main(["--run", str(run), *arguments, "--output", str(tmp_path / "2")])
    two = read(tmp_path / "2")
    assert two["images"] in (8, 9, 10)
    asked = two["settings"]["data"]
    assert (asked["source"], asked["batch_size"]) == ("image_folder", 5)

    settings = tmp_path / "settings.yaml"
    settings.write_text(f"run: {run}\ndata:\n  test_fraction: 0.4\n")
    config = EvaluateConfig.from_command_line(["--config", str(settings)])
    assert (config.data.dir, config.data.test_fraction) == (str(photos), 0.4)


def test_images_of_another_source_start_from_the_defaults(photos, tmp_path):
    data = {"source": "image_folder", "dir": str(photos), "batch_size": 5}
    run = write_run(tmp_path / "run", ("blue", "red"), data)
    config = EvaluateConfig.from_command_line(["--run", str(run), "--data.source", "digits"])
    assert (config.data.source, config.data.dir, config.data.batch_size) == ("digits", None, 64)


IMAGENET = tuple(number for number, _ in imagenet_classes())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """Folder with a data set of TFDS like ImageNet-V2: seven test images, none to train on."""
    import tensorflow_datasets as tfds

    folder, rng = tmp_path_factory.mktemp("tfds"), np.random.default_rng(0)
    features = tfds.features.FeaturesDict(
        {"image": tfds.features.Image(), "label": tfds.features.ClassLabel(names=IMAGENET)}
    )
    for name in ("images", "broken_images"):
        place, version = folder / name / "1.0.0", tfds.core.Version("1.0.0")
        place.mkdir(parents=True)
        builder = tfds.core.dataset_info.DatasetIdentity(name, version, str(place), __name__)
        writer = tfds.core.SequentialWriter(
            tfds.core.DatasetInfo(builder=builder, features=features), max_examples_per_shard=9
        )
        writer.initialize_splits(["test"])
        for i in range(7):
            pixels = rng.integers(0, 256, (20, 24 + i, 3)).astype("uint8")
            broken = name == "broken_images" and i == 5
            image = io.BytesIO(b"broken" if broken else tf.io.encode_jpeg(pixels).numpy())
            writer.add_examples({"test": [{"image": image, "label": 142 * i}]})
        writer.close_all()
    return folder


@pytest.mark.parametrize("name", ["images", "broken_images"])
def test_a_set_of_tfds(prepared, tmp_path, capsys, name):
    run = write_run(tmp_path / "run", IMAGENET, {"source": "tfds", "name": "imagenet2012"})
    arguments = ["--run", str(run), "--data.dir", str(prepared), "--data.name", name]
    arguments += ["--data.test_split", "test", "--data.batch_size", "4"]
    if name == "broken_images":
        with pytest.raises(ValueError, match=r"^data: unreadable image: .*5"):
            evaluate.main(arguments)
        arguments += ["--data.unreadable", "skip"]
    evaluate.main([*arguments, "--output", str(tmp_path)])
    written = read(tmp_path)
    there = {142 * i for i in range(7) if name == "images" or i != 5}
    assert written["images"] == len(there)
    assert {i for i, entry in enumerate(written["classes"]) if entry["images"]} == there
    assert written["classes"][142]["name"] == "n02033041"
    assert written["classes"][1]["recall"] is None
    assert "dowitcher" in capsys.readouterr().out
    with Image.open(tmp_path / "confusion.png") as picture:
        assert min(picture.size) > 200


@pytest.fixture
def no_work(monkeypatch):
    """Fails if the model is asked."""
    monkeypatch.setattr(metrics, "evaluate", lambda *_: pytest.fail("the work began"))


SOURCE = "--model lambda_resnet14 --weights w.weights.h5"


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "expected --run, or --model and --weights"),
        ("--model lambda_resnet14", "expected --weights imagenet, or a file of weights"),
        ("--model lambda_resnet15 --weights imagenet", "did you mean 'lambda_resnet1"),
        ("--model lambda_resnet14 --weights none.h5", "existing file. Received: 'none.h5'"),
        (f"{SOURCE} --averaged false", "averaged: only a run has other weights"),
        (f"{SOURCE} --data.batch 3", "did you mean '--data.batch_size'?"),
        (f"{SOURCE} --output w.weights.h5/new", "Received: 'w.weights.h5/new' (Not a directory)"),
        (SOURCE, "expected an intact HDF5 weights file"),
        ("--run nowhere", "expected the folder of a finished run. Received: 'nowhere'"),
        ("--run RUN --weights imagenet", "--run already says which model"),
        ("--run RUN --averaged false", "has no other weights (raw.weights.h5)"),
        ("--run RUN --data.dir photos", "data: dir is for source=image_folder"),
        (
            "--run RUN --data.source image_folder --data.dir photos",
            "classes that lambda_resnet14 knows, or of some of them. Received: 2 classes (blue, r",
        ),
        ("--run OTHER", "expected the classes of lambda_resnet14, of which number 3 is 'III'. Rec"),
        (
            "--run RUN --data.source tfds --data.name imagenet2012_real --calibrate true",
            "calibrate: expected one set of images with one label each, such as imagenet2012. Rec",
        ),
        (
            "--run RUN --data.source tfds --data.name imagenet2012_corrupted --calibrate true",
            "calibrate: expected one set of images with one label each, such as imagenet2012. Rec",
        ),
        ("--run RUN --calibrate 1.5", "calibrate: "),
        ("--run HEADLESS", "expected 768 class_names, one for each output of the model"),
        ("--run BROKEN", "run: expected an intact model. Received: BROKEN/model.keras ("),
        ("--run FLIPPED", "run: expected an intact model. Received: FLIPPED/model.keras ("),
    ],
)
def test_bad_input_ends_before_the_work(photos, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("w.weights.h5").write_bytes(b"broken")
    if "RUN" in arguments:
        write_run(Path("RUN"), DIGITS, {})
    if "OTHER" in arguments:
        write_run(Path("OTHER"), (*"012", "III", *"456789"), {})
    if "HEADLESS" in arguments:
        write_run(Path("HEADLESS"), DIGITS, {})
        model = new_model(10, seed=1)
        keras.Model(model.inputs, model.layers[-2].output).save("HEADLESS/model.keras")
    if "BROKEN" in arguments or "FLIPPED" in arguments:
        file = write_run(Path(arguments.split()[1]), DIGITS, {}) / "model.keras"
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 255
        file.write_bytes(content if "FLIPPED" in arguments else content[:1000])
    assert message in fail(monkeypatch, capsys, *arguments.split())
    assert not Path("new").exists()


@pytest.mark.usefixtures("no_work")
def test_weights_of_another_number_of_classes(weights, photos, monkeypatch, capsys):
    images = ["--data.source", "image_folder", "--data.dir", str(photos)]
    model = ["--model", "lambda_resnet14", "--weights", weights[0]]
    message = fail(monkeypatch, capsys, *model, *images)
    assert "with 2 classes: " in message
    assert "do not fit the model" in message


def test_help_does_not_wait_for_keras():
    script = (
        "import sys; from zoo.evaluate import __main__ as evaluate\n"
        "try: evaluate.main(['--help'])\n"
        "except SystemExit: sys.exit('keras' in sys.modules)"
    )
    root = Path(evaluate.__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True)
    assert result.returncode == 0
    for setting in ("--run", "--averaged", "--model", "--weights", "--data.source", "--output"):
        assert setting in result.stdout.decode()
