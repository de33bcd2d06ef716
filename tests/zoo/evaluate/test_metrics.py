"""Metrics as computed by hand, over real images only, and their files."""

import json
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import imagenet_classes
from zoo.data.load import EvalImages
from zoo.data.sources.base import IndexedSource
from zoo.evaluate import metrics, report
from zoo.evaluate.metrics import Evaluation, Mistake, evaluate
from zoo.evaluate.report import readable
from zoo.inference.classifier import Classifier


def classifier(classes: int, activation="softmax", bias=0.0) -> Classifier:
    """Looks at the mean color only."""
    inputs = keras.Input((4, 4, 3))
    x = keras.layers.GlobalAveragePooling2D()(inputs)
    outputs = keras.layers.Dense(
        classes, activation, kernel_initializer=keras.initializers.RandomNormal(0, 3, seed=0)
    )(x)
    model = keras.Model(inputs, outputs)
    model.layers[-1].bias.assign(np.full(classes, bias))
    return Classifier("colors", model, lambda photo: photo, [f"class {i}" for i in range(classes)])


def colors(count: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 255, (count, 1, 1, 3)) * np.ones((1, 4, 4, 1))
    return images.astype("float32"), rng.integers(0, classes, count)


def as_test_images(images: np.ndarray, labels: np.ndarray) -> EvalImages:
    source = IndexedSource(images, labels, np.array([""] * len(images)))
    return EvalImages(source, lambda record, seed: (record["image"], tf.constant(True)))


def test_speed_leaves_out_the_first_batch(monkeypatch):
    times = iter([100.0, 101.0, 103.0])  # at the end of each batch, of 8, 8 and 4 images
    monkeypatch.setattr(metrics, "time", SimpleNamespace(monotonic=lambda: next(times)))
    result = evaluate(classifier(2), as_test_images(*colors(20, 2)), 8)
    assert result.images_per_second == pytest.approx(12 / 3)


@pytest.mark.parametrize("classes", [2, 5, 6, 12])
@pytest.mark.parametrize("batch_size", [16, 37, 64])  # the last one of 5, of all, of 37 images
def test_figures_are_those_of_a_direct_computation(classes, batch_size):
    asked = classifier(classes)
    images, labels = colors(37, classes)
    result = evaluate(asked, as_test_images(images, labels), batch_size)

    weights, bias = asked.model.layers[-1].get_weights()
    logits = preprocess_input(images).mean((1, 2), dtype="float64") @ weights + bias
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities = exponents / exponents.sum(-1, keepdims=True)
    of_truth = probabilities[np.arange(37), labels]
    rank = (probabilities > of_truth[:, None]).sum(-1)
    assert 0 < (rank == 0).mean() < 1
    assert result.top1 == pytest.approx((rank == 0).mean())
    assert result.loss == pytest.approx(-np.log(of_truth).mean(), rel=1e-5)
    if classes > 5:
        assert (rank == 0).mean() < result.top5 < 1
        assert result.top5 == pytest.approx((rank < 5).mean())
    else:
        assert result.top5 is None
    predicted = probabilities.argmax(-1)
    expected = np.zeros((classes, classes), int)
    for label, guess in zip(labels, predicted, strict=True):
        expected[label, guess] += 1
    np.testing.assert_array_equal(result.confusion, expected)
    assert (result.images_per_second is None) == (batch_size >= 37)

    right, guesses, images_of = expected.diagonal(), expected.sum(0), expected.sum(1)
    with np.errstate(invalid="ignore"):
        columns = (right / guesses, right / images_of, 2 * right / (guesses + images_of), images_of)
    for column, figures in zip(result.by_class, columns, strict=True):
        np.testing.assert_allclose(column, figures)


def test_images_that_cannot_be_read_do_not_count():
    images, labels = colors(9, 6)
    source = as_test_images(images, labels).source
    broken = images[:4, 0, 0, 0]

    def view(record, seed):
        return record["image"], tf.reduce_all(record["image"][0, 0, 0] != broken)

    result = evaluate(classifier(6), EvalImages(source, view), 2)
    expected = evaluate(classifier(6), as_test_images(images[4:], labels[4:]), 5)
    assert sorted(result.labels) == sorted(labels[4:])
    np.testing.assert_array_equal(result.confusion, expected.confusion)
    assert (result.top1, result.top5) == (expected.top1, expected.top5)
    assert result.loss == pytest.approx(expected.loss, rel=1e-6)


def test_no_image_at_all():
    test = as_test_images(*colors(3, 6))
    nothing = EvalImages(test.source, lambda record, _: (record["image"], tf.constant(False)))
    with pytest.raises(ValueError, match="expected test images"):
        evaluate(classifier(6), nothing, 2)


@pytest.mark.parametrize(("activation", "bias"), [(None, 0.0), ("softmax", np.nan)])
def test_outputs_that_are_no_probabilities(activation, bias):
    with pytest.raises(ValueError, match=r"colors returns outputs with the sum (nan|[-\d.e]+)$"):
        evaluate(classifier(6, activation, bias), as_test_images(*colors(4, 6)), 2)


def test_names_of_imagenet_become_words_that_differ():
    names = readable([number for number, _ in imagenet_classes()])
    assert len(set(names)) == 1000
    assert (names[285], names[1]) == ("Egyptian cat", "goldfish")
    assert {"crane n02012849", "crane n03126707"} <= set(names)
    assert readable(["n0", "red_fox"]) == ["n0", "red_fox"]


def of_many(classes: int) -> Evaluation:
    """The class n has 3 images, n % 3 of which are taken for the next class; the last has none."""
    labels = np.repeat(np.arange(classes - 1), 3)
    predicted = labels + (np.arange(len(labels)) % 3 < labels % 3)
    confidence = 0.3 + 0.6 * (labels == predicted)
    return Evaluation(labels, predicted, confidence, classes, 0.9, 0.5, 1234.5)


def test_every_class_counts_as_much_in_macro_f1():
    assert of_many(4).macro_f1 == pytest.approx(np.mean([1, 4 / 5, 2 / 5]))


def test_calibration_error_is_the_distance_of_confidence_and_accuracy():
    """In fifteenths: 0.30 to 0.33 and 0.87 to 0.93 and, the last of all, 1."""
    confidence = np.array([0.31, 0.33, 0.32, 0.9, 0.88, 1.0])
    predicted = np.array([0, 1, 1, 0, 0, 0])
    result = Evaluation(np.zeros(6, int), predicted, confidence, 2, None, 0.5, None)
    count, mean, accuracy = result.reliability
    assert count.tolist() == [0] * 4 + [3] + [0] * 8 + [2, 1]
    np.testing.assert_allclose(mean[[4, 13, 14]], [0.32, 0.89, 1])
    np.testing.assert_allclose(accuracy[[4, 13, 14]], [1 / 3, 1, 1])
    expected = (3 * abs(0.32 - 1 / 3) + 2 * 0.11) / 6
    assert result.calibration_error == pytest.approx(expected)


def test_the_most_confident_errors_are_kept():
    asked, (images, labels) = classifier(6), colors(90, 6)
    result = evaluate(asked, as_test_images(images, labels), 16)
    predictions = asked.infer(preprocess_input(images))
    wrong = predictions.argmax(-1) != labels
    expected = np.sort(predictions[wrong].max(-1))[::-1][:32]
    assert len(expected) == 32
    found = [one.probabilities.max() for one in result.mistakes]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for one in result.mistakes:
        (place,) = np.flatnonzero((preprocess_input(images) == one.image).all((1, 2, 3)))
        assert one.label == labels[place]
    np.testing.assert_allclose(np.sort(result.confidence), np.sort(predictions.max(-1)), rtol=1e-5)


@pytest.mark.parametrize(("classes", "rows"), [(3, 3), (20, 20), (50, 20)])
def test_printed_tables(capsys, classes, rows):
    names = [f"[bold]{i}" for i in range(classes)]  # no markup
    result = of_many(classes)
    report.print_tables(result, names, "a model on images")
    printed = capsys.readouterr().out
    for text in ("a model on images", f"{result.top1:.4f}", "0.9000", "0.5000", "1,234"):
        assert text in printed
    assert f"{3 * (classes - 1):,}" in printed
    shown = [line.split() for line in printed.splitlines() if "[bold]" in line]
    assert len(shown) == rows
    f1 = [line[7] for line in shown]
    if classes == 50:
        assert "20 of 50 classes" in printed
        assert f1 == sorted(f1)
    else:
        assert (shown[-1][5], shown[-1][9]) == ("-", "0")
        expected = [f"{figure:.4f}" for figure in result.by_class[2]]
        assert f1 == [figure.replace("nan", "-") for figure in expected]


def test_files(tmp_path):
    names = [f"größe {i}" for i in range(4)]
    mistake = Mistake(np.zeros((4, 4, 3), "float32"), 1, np.array([0.1, 0.2, 0.7, 0]))
    result = replace(of_many(4), mistakes=[mistake])
    report.write(result, names, "title", {"run": "runs/some"}, tmp_path / "new")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [
        "confusion.png",
        "evaluation.json",
        "mistakes.png",
        "reliability.png",
        "thresholds.png",
    ]
    written = json.loads((tmp_path / "new" / "evaluation.json").read_text("utf-8"))
    assert (written["settings"]["run"], written["images"]) == ("runs/some", 9)
    assert (written["top1"], written["top5"], written["loss"]) == (pytest.approx(6 / 9), 0.9, 0.5)
    assert written["confusions"] == [
        {"true": "größe 2", "predicted": "größe 3", "images": 2},
        {"true": "größe 1", "predicted": "größe 2", "images": 1},
    ]
    assert written["classes"][1] == {
        "name": "größe 1",
        "precision": 1.0,
        "recall": pytest.approx(2 / 3),
        "f1": pytest.approx(0.8),
        "images": 3,
    }
    assert written["classes"][3] == {
        "name": "größe 3", "precision": 0.0, "recall": None, "f1": 0.0, "images": 0,
    }  # fmt: skip
    assert written["macro_f1"] == pytest.approx(result.macro_f1)
    assert written["calibration_error"] == pytest.approx(result.calibration_error)
    for name in ("confusion", "mistakes", "reliability"):
        with Image.open(tmp_path / "new" / f"{name}.png") as picture:
            assert picture.format == "PNG"
    report.write(of_many(4), names, "title", {}, tmp_path / "new")
    assert not (tmp_path / "new" / "mistakes.png").exists()


def test_pixels_of_mistakes_are_those_of_the_image():
    images, _ = colors(2, 2)
    np.testing.assert_allclose(report._pixels(preprocess_input(images)), images, atol=1e-3)
