"""What is compared with Keras, and that differences are found wherever they are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from zoo.data.crops import decode_centre
from zoo.export import verify
from zoo.export.verify import Photographs
from zoo.inference.classifier import Classifier
from zoo.inference.exported import ask
from zoo.registry import create_model

SIGNATURES = {"serving_default", "images_uint8", "image_bytes", "features"}


@pytest.fixture(scope="module")
def photographs(servable) -> Photographs:
    return Photographs.samples(servable)


def test_samples_are_photographs(servable, photographs):
    assert len(photographs.files) == 18
    assert all(tf.image.is_jpeg(file) for file in photographs.files)
    assert photographs.images.shape == (18, 16, 16, 3)
    assert len(np.unique(photographs.images, axis=0)) > 10
    expected = decode_centre(photographs.files[3], servable.preprocessing)
    np.testing.assert_array_equal(photographs.images[3], expected)
    assert photographs.labels is None


def test_held_out_images_of_a_run(run):
    served = Classifier.from_run(run)
    held_out = Photographs.held_out(run, served)
    assert held_out.images.shape == (360, 16, 16, 3)
    assert len(held_out.files) == len(held_out.labels) == 360
    assert set(held_out.labels) == set(range(10))


@pytest.fixture(scope="module")
def report(servable, exported, photographs) -> verify.Report:
    labels = np.zeros(18, int)
    return verify.check(servable, "saved_model", exported, replace(photographs, labels=labels))


@pytest.fixture(scope="module")
def answers(exported, photographs):
    """What the export answers."""
    questions = {"serving_default": {"images": photographs.images}}
    return ask("saved_model", exported, questions | verify._more(photographs))


def test_an_honest_export(report):
    assert set(report.differences) == SIGNATURES
    assert max(report.differences.values()) < verify.MAX_DIFFERENCE[None]
    assert (report.agreement, report.photographs) == (1, 18)
    assert 0 <= report.accuracy <= 1


def test_other_weights_are_found_in_every_signature(servable, photographs, answers, monkeypatch):
    model = create_model("lambda_resnet14", classes=7, input_shape=(16, 16, 3))
    model.set_weights([array * 1.001 for array in servable.model.get_weights()])
    monkeypatch.setattr(verify, "ask", lambda *_: answers)
    other = replace(servable, model=model)
    report = verify.check(other, "saved_model", Path(), photographs)
    assert set(report.differences) == SIGNATURES
    assert min(report.differences.values()) > verify.MAX_DIFFERENCE[None]


def test_other_views_and_names_are_found(servable, photographs, answers, monkeypatch):
    of_files = {name: np.roll(array, 1, axis=0) for name, array in answers["image_bytes"].items()}
    swapped = replace(servable, class_names=servable.class_names[::-1])
    for asked, told in ((servable, {**answers, "image_bytes": of_files}), (swapped, answers)):
        monkeypatch.setattr(verify, "ask", lambda *_, told=told: told)
        differences = dict(verify.check(asked, "saved_model", Path(), photographs).differences)
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
        assert verify._of_top(answers, expected, list("abc")) == 0
    answers["classes"] = np.array([[0, 1, 2]])
    answers["labels"] = np.array([[b"a", b"b", b"c"]])
    assert verify._of_top(answers, expected, list("abc")) == pytest.approx(0.1)


@pytest.mark.parametrize("got", [np.full((2, 3), np.nan), np.zeros((2, 1)), np.zeros((1, 3))])
def test_what_is_no_number_or_of_another_shape_differs(got):
    assert verify._largest(got, np.zeros((2, 3))) == np.inf
    assert verify._largest(np.zeros((2, 3)), got) == np.inf
