"""Comparison of exports with Keras: differences are found wherever they are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from zoo.data.crops import decode_center
from zoo.export import verify
from zoo.export.runtimes import run as run_export
from zoo.export.signatures import SIGNATURES, Examples, largest_difference, top_difference
from zoo.inference.classifier import predict
from zoo.inference.source.run import Run
from zoo.inference.source.weights import Weights
from zoo.registry import create_model


@pytest.fixture(scope="module")
def examples(weights, servable) -> Examples:
    return verify.examples_for(Weights("lambda_resnet14", weights), servable)


def test_samples_are_examples(servable, examples):
    assert len(examples.files) == 18
    assert all(tf.image.is_jpeg(file) for file in examples.files)
    assert examples.images.shape == (18, 16, 16, 3)
    assert len(np.unique(examples.images, axis=0)) > 10
    expected = decode_center(examples.files[3], servable.preprocessing)
    np.testing.assert_array_equal(examples.images[3], expected)
    assert examples.labels is None


def test_held_out_images_of_a_run(run):
    held_out = verify.examples_for(Run(run), Run(run).load())
    assert held_out.images.shape == (360, 16, 16, 3)
    assert len(held_out.files) == len(held_out.labels) == 360
    assert set(held_out.labels) == set(range(10))


@pytest.fixture(scope="module")
def report(servable, exported, examples) -> verify.Comparison:
    labels = np.zeros(18, int)
    return verify.compare(servable, "saved_model", exported, replace(examples, labels=labels))


@pytest.fixture(scope="module")
def answers(exported, examples):
    """Outputs of the export."""
    inputs = {name: signature.inputs(examples) for name, signature in SIGNATURES.items()}
    return run_export("saved_model", exported, inputs)


def test_an_honest_export(report):
    assert set(report.differences) == set(SIGNATURES)
    assert max(report.differences.values()) < verify.MAX_DIFFERENCE[None]
    assert (report.agreement, report.images) == (1, 18)
    assert 0 <= report.accuracy <= 1


def test_accuracy_is_that_of_the_export(servable, examples, answers, monkeypatch):
    """An export that takes every image for class 0, beside labels of which a third are 0."""
    probabilities = np.tile(np.eye(7, dtype="float32")[0], (18, 1))
    wrong = {**answers, "serving_default": {"probabilities": probabilities}}
    monkeypatch.setattr(verify, "run", lambda *_: wrong)
    labelled = replace(examples, labels=np.arange(18) % 3)
    comparison = verify.compare(servable, "saved_model", Path(), labelled)
    keras_classes = predict(servable.model, examples.images).argmax(-1)
    assert comparison.accuracy == 1 / 3
    assert comparison.agreement == (keras_classes == 0).mean() != comparison.accuracy
    assert (keras_classes == labelled.labels).mean() != comparison.accuracy


def test_other_weights_are_found_in_every_signature(servable, examples, answers, monkeypatch):
    model = create_model("lambda_resnet14", classes=7, input_shape=(16, 16, 3))
    model.set_weights([array * 1.001 for array in servable.model.get_weights()])
    monkeypatch.setattr(verify, "run", lambda *_: answers)
    other = replace(servable, model=model)
    report = verify.compare(other, "saved_model", Path(), examples)
    assert set(report.differences) == set(SIGNATURES)
    assert min(report.differences.values()) > verify.MAX_DIFFERENCE[None]


def test_other_views_and_names_are_found(servable, examples, answers, monkeypatch):
    of_files = {name: np.roll(array, 1, axis=0) for name, array in answers["image_bytes"].items()}
    swapped = replace(servable, class_names=servable.class_names[::-1])
    for asked, told in ((servable, {**answers, "image_bytes": of_files}), (swapped, answers)):
        monkeypatch.setattr(verify, "run", lambda *_, told=told: told)
        differences = dict(verify.compare(asked, "saved_model", Path(), examples).differences)
        assert differences.pop("image_bytes") > verify.MAX_DIFFERENCE[None]
        assert max(differences.values()) < verify.MAX_DIFFERENCE[None]


def test_equally_probable_classes_may_change_places():
    expected = np.array([[0.3, 0.3, 0.4]], "float32")
    for order in ([2, 0, 1], [2, 1, 0]):
        answers = {
            "classes": np.array([order]),
            "scores": np.array([[0.4, 0.3, 0.3]], "float32"),
            "labels": np.array([[b"abc"[i : i + 1] for i in order]]),
        }
        assert top_difference(answers, expected, list("abc")) == 0
    answers["classes"] = np.array([[0, 1, 2]])
    answers["labels"] = np.array([[b"a", b"b", b"c"]])
    assert top_difference(answers, expected, list("abc")) == pytest.approx(0.1)


@pytest.mark.parametrize("got", [np.full((2, 3), np.nan), np.zeros((2, 1)), np.zeros((1, 3))])
def test_what_is_no_number_or_of_another_shape_differs(got):
    assert largest_difference(got, np.zeros((2, 3))) == np.inf
    assert largest_difference(np.zeros((2, 3)), got) == np.inf
