"""Comparison of exports with Keras: differences are found wherever they are."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import runs

from zoo.data.crops import decode_center
from zoo.export import verify
from zoo.export.base import MAX_LOSS, Options
from zoo.export.exporter import Check, largest_difference
from zoo.export.saved_model import Runtime, SavedModel
from zoo.export.verify import MAX_DIFFERENCE, as_in_file, checks_of, export_of, top_difference
from zoo.inference.classifier import predict
from zoo.inference.source.run import Run
from zoo.inference.source.weights import Weights

SIGNATURES = {"serving_default", "images_uint8", "image_bytes", "features"}
SOURCE = Weights("lambda_resnet14", "hf://a/b")


@pytest.fixture(scope="module")
def examples(servable):
    """Files, images and Keras' probabilities."""
    files, _ = SOURCE.held_out_files(99)
    images = np.stack([decode_center(file, servable.preprocessing) for file in files])
    return files, images, predict(servable.model, images)


def answers_of(folder, export):
    runtime = Runtime(folder)
    return {name: runtime.run(name, check.inputs) for name, check in export.checks.items()}


@pytest.fixture(scope="module")
def answers(exported, export):
    return answers_of(exported, export)


def as_signed(checks):
    signatures = SavedModel().signatures(Options())
    return {name: checks[computed] for name, computed in signatures.items()}


def differences(checks, answers):
    return {name: check.difference(answers[name]) for name, check in checks.items()}


def test_samples_are_examples(run, export, examples, monkeypatch):
    files, images, _ = examples
    assert len(files) == 18
    assert all(tf.image.is_jpeg(file) for file in files)
    assert len(np.unique(images, axis=0)) > 10
    np.testing.assert_array_equal(export.checks["serving_default"].inputs["images"], images)
    assert export.checks["image_bytes"].inputs["image_bytes"].tolist() == files[:16]
    monkeypatch.setattr(verify, "MAX_IMAGES", 5)
    held_out = export_of(Run(run).load(), Run(run), "onnx", Options())
    assert list(held_out.checks) == ["serving_default"]
    assert held_out.checks["serving_default"].inputs["images"].shape == (5, 16, 16, 3)


def test_run_without_its_images(run, tmp_path, capsys):
    data = {"source": "image_folder", "dir": str(tmp_path / "gone")}
    moved = runs.changed(run, tmp_path / "run", data=data)
    files, labels = Run(moved).held_out_files(99)
    assert (len(files), labels) == (18, None)
    message = "without test accuracy, compared on packaged images: data.dir: exp"
    assert message in capsys.readouterr().err


def test_an_honest_export(export, answers):
    found = differences(export.checks, answers)
    assert set(found) == SIGNATURES
    assert max(found.values()) < export.allowed == MAX_DIFFERENCE["float32"] == 1e-5


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "float32"])
def test_another_precision_is_compared_with_float32(servable, tmp_path, precision):
    export = export_of(servable, SOURCE, "saved_model", Options(precision=precision))
    (tmp_path / "1").mkdir()
    export.writers["SavedModel"](tmp_path / "1")
    answers = answers_of(tmp_path / "1", export)
    found = max(differences(export.checks, answers).values())
    in_bfloat16 = precision == "mixed_bfloat16"
    assert (1e-4 if in_bfloat16 else 0) < found < export.allowed == (0.1 if in_bfloat16 else 1e-5)
    assert {a.dtype for a in answers["features"].values()} == {np.dtype("float32")}
    assert export.precision == precision
    assert ("computes in mixed_bfloat16" in export.use) == in_bfloat16


def test_accuracy_is_that_of_the_export(servable, examples, monkeypatch):
    """An export that takes every image for class 0, beside labels of which a third are 0."""
    labels = np.arange(18) % 3
    monkeypatch.setattr(Weights, "held_out_files", lambda *_: (examples[0], labels))
    export = export_of(servable, SOURCE, "saved_model", Options())
    probabilities = np.tile(np.eye(10, dtype="float32")[0], (18, 1))
    outputs = {"serving_default": {"probabilities": probabilities}}
    agreement, accuracy = export.summary(outputs, Path())
    keras_classes = examples[2].argmax(-1)
    same = (keras_classes == 0).mean()
    assert agreement == f"the same most probable class for {same:.1%} of 18 images"
    assert accuracy == "test accuracy 0.3333 (18 held-out images, exported SavedModel)"
    assert same != 1 / 3 != (keras_classes == labels).mean()


@pytest.mark.parametrize(("wrong", "loss"), [(0, ""), (1, "falls from 1.0000 to 0.9444, by more")])
def test_loss_of_int8_is_that_of_accuracy(servable, examples, monkeypatch, wrong, loss):
    files, _, expected = examples
    labels = expected.argmax(-1)
    monkeypatch.setattr(Weights, "held_out_files", lambda *_: (files, labels))
    export = export_of(servable, SOURCE, "openvino", Options("int8"))
    probabilities = np.array(expected)
    probabilities[:wrong] = probabilities[:wrong, ::-1] + np.eye(10)[(labels[0] + 1) % 10]
    assert loss in export.loss({"serving_default": {"probabilities": probabilities}})
    plain, accurate = export.writers.values()
    assert plain.keywords["options"].max_loss is None
    assert accurate.keywords["options"].max_loss == MAX_LOSS
    assert [label for _, label in accurate.keywords["options"].held_out] == [*labels]
    plain = export_of(servable, SOURCE, "openvino", Options())
    assert list(plain.writers) == ["OpenVINO"]
    assert plain.loss({}) == ""


def test_other_weights_images_and_names_are_found(servable, examples, answers):
    files, images, _ = examples
    model = keras.models.clone_model(servable.model)
    model.set_weights([array * 1.01 for array in servable.model.get_weights()])
    own = checks_of(replace(servable, model=model), files, images, predict(model, images))
    found = differences(as_signed(own), answers)
    assert set(found) == SIGNATURES
    assert min(found.values()) > MAX_DIFFERENCE["float32"]
    of_files = {name: np.roll(array, 1, axis=0) for name, array in answers["image_bytes"].items()}
    swapped = replace(servable, class_names=servable.class_names[::-1])
    for asked, told in ((servable, {**answers, "image_bytes": of_files}), (swapped, answers)):
        found = differences(as_signed(checks_of(asked, *examples)), told)
        assert found.pop("image_bytes") > MAX_DIFFERENCE["float32"]
        assert max(found.values()) < MAX_DIFFERENCE["float32"]


@pytest.mark.parametrize(
    ("options", "black_and_white", "half"),
    [
        ({"layout": "nchw"}, [0, 255], 0.5),
        ({"io_type": "uint8"}, [0, 255], 128),
        ({"io_type": "int8"}, [-128, 127], 0),
    ],
)
def test_arrays_as_the_file_has_them(options, black_and_white, half):
    images = np.zeros((1, 4, 5, 3), "float32")
    images[..., 1] = 254.6 if "io_type" in options else 255
    expected = {"probabilities": np.array([[0.5, 0.25]])}
    check = Check({"images": images}, partial(largest_difference, expected))
    check = as_in_file(check, Options(**options))
    found = check.inputs["images"]
    assert found.dtype == options.get("io_type", "float32")
    assert found.shape == ((1, 3, 4, 5) if "layout" in options else images.shape)
    assert np.unique(found).tolist() == black_and_white
    outputs = {"probabilities": np.array([[half, half]], found.dtype)}
    assert check.difference(outputs) == 0.25


@pytest.mark.parametrize(
    ("expected", "classes", "scores", "difference"),
    [
        ([0.3, 0.3, 0.4], [2, 0, 1], [0.4, 0.3, 0.3], 0),
        ([0.3, 0.3, 0.4], [2, 1, 0], [0.4, 0.3, 0.3], 0),  # equally probable ones swap places
        ([0.3, 0.3, 0.4], [0, 1, 2], [0.4, 0.3, 0.3], 0.1),
        ([0.3, 0.3, 0.4], [2, 1, 0], [0.9, 0.8, 0.8], 0.5),
        ([0.1, 0.2, 0.3, 0.4], [3, 2], [0.4, 0.3], 0),
        ([0.1, 0.2, 0.3, 0.4], [2, 1], [0.3, 0.2], 0.1),  # without the most probable one
        ([0.1, 0.2, 0.3, 0.4], [3, 1], [0.4, 0.3], 0.1),  # the score of another one
        ([0.1, 0.2, 0.3, 0.4], [2, 3], [0.3, 0.4], 0.1),  # not in their order
    ],
)
def test_the_most_probable_classes(expected, classes, scores, difference):
    answers = {"classes": np.array([classes]), "scores": np.array([scores])}
    answers["labels"] = np.array([[b"abcd"[i : i + 1] for i in classes]])
    found = top_difference(list("abcd"), np.array([expected]), answers)
    assert found == pytest.approx(difference)
    assert top_difference(list("abdc"), np.array([expected]), answers) == np.inf


def test_differences_of_named_outputs():
    zeros = np.zeros((2, 3))
    for got in (np.full((2, 3), np.nan), np.zeros((2, 1)), np.zeros((1, 3))):
        assert largest_difference({"a": zeros}, {"a": got}) == np.inf
        assert largest_difference({"a": got}, {"a": zeros}) == np.inf
    assert largest_difference({"a": zeros}, {"b": zeros}) == np.inf
    expected, got = {"a": np.array([1.0, -200.0])}, {"a": np.array([2.0, -200.0])}
    assert largest_difference(expected, got) == 1
    assert largest_difference(expected, got, relative=True) == pytest.approx(1 / 200)
