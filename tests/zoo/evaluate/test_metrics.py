"""Metrics, scores and thresholds as computed by hand, over real images only, and their files."""

import json
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from scipy.special import softmax

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import imagenet_classes
from zoo.data.load import EvalImages
from zoo.data.sources.base import IndexedSource
from zoo.evaluate import report
from zoo.evaluate.classes import match_classes
from zoo.evaluate.metrics import Evaluation, Mistake, evaluate
from zoo.evaluate.report import ClassifierReport
from zoo.inference.classifier import Classifier


def classifier(classes: int, activation="softmax", bias=0.0) -> Classifier:
    """Looks at the mean color only."""
    inputs = keras.Input((4, 4, 3))
    x = keras.layers.GlobalAveragePooling2D()(inputs)
    start = keras.initializers.RandomNormal(0, 3, seed=0)
    outputs = keras.layers.Dense(classes, activation, kernel_initializer=start)(x)
    model = keras.Model(inputs, outputs)
    model.layers[-1].bias.assign(np.full(classes, bias))
    return Classifier("colors", model, lambda photo: photo, [f"class {i}" for i in range(classes)])


def colors(count: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 255, (count, 1, 1, 3)) * np.ones((1, 4, 4, 1))
    return images.astype("float32"), rng.integers(0, classes, count)


def as_test_images(images: np.ndarray, labels: np.ndarray, readable=True) -> EvalImages:
    """Test images; `readable` says it of one by its first value, or of all."""
    source = IndexedSource(images, labels, np.array([""] * len(images)))

    def view(records, _):
        first = records["image"][:, 0, 0, 0]
        known = readable(first) if callable(readable) else tf.fill(tf.shape(first), readable)
        return records["image"], known

    return EvalImages(source, view)


def test_speed_leaves_out_the_first_batch():
    times = iter([100.0, 101.0, 103.0])  # at the end of each batch, of 8, 8 and 4 images
    images = as_test_images(*colors(20, 2))
    result = evaluate(classifier(2), images, 8, now=lambda: next(times))
    assert result.images_per_second == pytest.approx(12 / 3)


# The last batch is of 5, of all, and of 37 images.
@pytest.mark.parametrize(("classes", "batch_size"), [(2, 16), (5, 37), (6, 64), (12, 16)])
def test_figures_are_those_of_a_direct_computation(classes, batch_size):
    asked = classifier(classes)
    images, labels = colors(37, classes)
    result = evaluate(asked, as_test_images(images, labels), batch_size)

    weights, bias = asked.model.layers[-1].get_weights()
    logits = preprocess_input(images).mean((1, 2), dtype="float64") @ weights + bias
    probabilities = softmax(logits, -1)
    of_truth = probabilities[np.arange(37), labels]
    rank = (probabilities > of_truth[:, None]).sum(-1)
    assert 0 < (rank == 0).mean() < 1
    assert (result.top1, result.images) == (pytest.approx((rank == 0).mean()), 37)
    assert result.loss == pytest.approx(-np.log(of_truth).mean(), rel=1e-5)
    assert result.top5 == (pytest.approx((rank < 5).mean()) if classes > 5 else None)
    predicted = probabilities.argmax(-1)
    expected = np.zeros((classes, classes), int)
    np.add.at(expected, (labels, predicted), 1)
    np.testing.assert_array_equal(result.confusion, expected)
    assert (result.images_per_second is None) == (batch_size >= 37)

    right, guesses, images_of = expected.diagonal(), expected.sum(0), expected.sum(1)
    with np.errstate(invalid="ignore"):
        columns = (right / guesses, right / images_of, 2 * right / (guesses + images_of), images_of)
    for column, figures in zip(result.by_class, columns, strict=True):
        np.testing.assert_allclose(column, figures)


def test_images_that_cannot_be_read_do_not_count():
    images, labels = colors(9, 6)
    broken = images[:4, 0, 0, 0]
    some = as_test_images(images, labels, lambda first: tf.reduce_all(first[:, None] != broken, 1))
    result = evaluate(classifier(6), some, 2)
    expected = evaluate(classifier(6), as_test_images(images[4:], labels[4:]), 5)
    np.testing.assert_array_equal(result.confusion, expected.confusion)
    assert (result.top1, result.top5) == (expected.top1, expected.top5)
    assert result.loss == pytest.approx(expected.loss, rel=1e-6)
    with pytest.raises(ValueError, match="expected test images"):
        evaluate(classifier(6), as_test_images(images, labels, False), 2)


def test_several_labels_and_some_of_the_classes():
    """Labels are of four classes in another order, of which three count, and one image has none."""
    asked, (images, _) = classifier(6), colors(5, 6)
    targets = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0]])
    batch = (preprocess_input(images), targets.astype("float32"), np.ones(5))
    test = SimpleNamespace(
        files=None,
        steps=lambda size: 1,
        batches=lambda size, count: SimpleNamespace(as_numpy_iterator=lambda: iter([batch])),
    )
    label_names, subset = [f"class {i}" for i in (4, 0, 2, 5)], [f"class {i}" for i in (2, 4, 0)]
    classes = match_classes(asked, label_names, subset)
    result = evaluate(asked, test, 5, classes)
    logits = np.log(asked.infer(batch[0]).astype("float64"))[:, [2, 4, 0]]
    probabilities = softmax(logits, -1)
    is_true = targets[:, [2, 0, 1]] > 0
    kept = [0, 1, 3, 4]  # image 2 has no label
    assert result.images == 4
    expected = -np.log((probabilities * is_true).sum(-1)[kept]).mean()
    assert result.loss == pytest.approx(expected, rel=1e-5)
    guess = probabilities.argmax(-1)
    assert result.predicted.tolist() == guess[kept].tolist()
    best_true = np.where(is_true, probabilities, -1).argmax(-1)
    right = is_true[np.arange(5), guess]
    assert result.labels.tolist() == np.where(right, guess, best_true)[kept].tolist()
    batch[1][2, 3] = 1  # class 5 is not among those that count
    with pytest.raises(ValueError, match=r"images of 3 classes \(class 2, .*one of class 5$"):
        evaluate(asked, test, 5, classes)


@pytest.mark.parametrize(
    ("activation", "bias", "message"),
    [
        (None, 0.0, r"colors returns outputs with the sum [-\d.e]+$"),
        ("softmax", np.nan, "finite outputs of colors. Received: nan in probabilities"),
        (None, np.inf, "finite outputs of colors. Received: inf in probabilities"),
    ],
)
def test_outputs_that_are_no_probabilities(activation, bias, message):
    with pytest.raises(ValueError, match=message):
        evaluate(classifier(6, activation, bias), as_test_images(*colors(4, 6)), 2)


def test_the_most_confident_errors_and_all_outputs_are_kept():
    asked, (images, labels) = classifier(6), colors(90, 6)
    result = evaluate(asked, as_test_images(images, labels), 16, keep_outputs=True)
    predictions = asked.infer(preprocess_input(images)).astype("float64")
    wrong = predictions.argmax(-1) != labels
    expected = np.sort(predictions[wrong].max(-1))[::-1][:32]
    assert len(expected) == 32
    found = [one.probabilities.max() for one in result.mistakes]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for one in result.mistakes:
        (place,) = np.flatnonzero((preprocess_input(images) == one.image).all((1, 2, 3)))
        assert one.label == labels[place]
    np.testing.assert_allclose(np.sort(result.confidence), np.sort(predictions.max(-1)), rtol=1e-5)
    np.testing.assert_array_equal(result.scores.right, result.labels == result.predicted)
    kept = np.exp(result.log_probabilities)
    np.testing.assert_allclose(np.sort(kept, 0), np.sort(predictions, 0), rtol=1e-5)
    np.testing.assert_allclose(kept.max(-1), result.confidence, rtol=1e-5)
    np.testing.assert_array_equal(kept.argmax(-1), result.predicted)


def test_names_of_imagenet_become_words_that_differ():
    names = report.readable([number for number, _ in imagenet_classes()])
    assert len(set(names)) == 1000
    assert (names[285], names[1]) == ("Egyptian cat", "goldfish")
    assert {"crane n02012849", "crane n03126707"} <= set(names)
    assert report.readable(["n0", "red_fox"]) == ["n0", "red_fox"]


def of_many(names: list[str]) -> Evaluation:
    """The class n has 3 images, n % 3 of which are taken for the next class; the last has none."""
    labels = np.repeat(np.arange(len(names) - 1), 3)
    predicted = labels + (np.arange(len(labels)) % 3 < labels % 3)
    confidence = 0.3 + 0.6 * (labels == predicted)
    return Evaluation(labels, predicted, confidence, names, 0.9, 0.5, 1234.5)


@pytest.mark.parametrize(("classes", "rows"), [(3, 3), (20, 20), (50, 20)])
def test_printed_tables(capsys, classes, rows):
    result = of_many([f"[bold]{i}" for i in range(classes)])  # no markup
    ClassifierReport(result, {}).print_tables("a model on images")
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
    mistake = Mistake(np.zeros((4, 4, 3), "float32"), 1, np.array([0.1, 0.2, 0.7, 0]))
    result = replace(of_many([f"größe {i}" for i in range(4)]), mistakes=[mistake])
    assert result.macro_f1 == pytest.approx(np.mean([1, 4 / 5, 2 / 5]))
    ClassifierReport(result, {}).write("title", {"run": "runs/some"}, tmp_path)
    names = ("confusion", "mistakes", "thresholds")
    assert {path.stem for path in tmp_path.iterdir()} == {"evaluation", *names}
    for name in names:
        with Image.open(tmp_path / f"{name}.png") as picture:
            assert min(picture.size) > 200
    written = json.loads((tmp_path / "evaluation.json").read_text("utf-8"))
    assert (written["settings"]["run"], written["images"]) == ("runs/some", 9)
    assert (written["top1"], written["top5"], written["loss"]) == (pytest.approx(6 / 9), 0.9, 0.5)
    assert written["confusions"] == [
        {"true": "größe 2", "predicted": "größe 3", "images": 2},
        {"true": "größe 1", "predicted": "größe 2", "images": 1},
    ]
    values = ["größe 1", 1, pytest.approx(2 / 3), pytest.approx(0.8), 3]
    assert list(written["classes"][1].values()) == values
    assert list(written["classes"][3].values()) == ["größe 3", 0.0, None, 0.0, 0]
    assert written["macro_f1"] == pytest.approx(result.macro_f1)
    assert written["calibration_error"] == pytest.approx(result.calibration_error)
    assert written["thresholds"] == result.scores.thresholds()
    ClassifierReport(replace(result, mistakes=()), {}).write("title", {}, tmp_path)
    assert not (tmp_path / "mistakes.png").exists()


def test_pixels_of_mistakes_are_those_of_the_image():
    images, _ = colors(2, 2)
    np.testing.assert_allclose(report.denormalized(preprocess_input(images)), images, atol=1e-3)
