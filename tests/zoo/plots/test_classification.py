"""Figures: right images marked, files whole."""

import numpy as np
import pytest
from PIL import Image

from zoo.plots import classification


def test_curves_of_one_epoch_and_of_many(tmp_path):
    for epochs in (1, 30):
        history = {
            name: np.linspace(0.5, 0.9, epochs).tolist()
            for name in ("loss", "val_loss", "accuracy", "val_accuracy")
        }
        classification.plot_curves(history, "title", tmp_path / "curves.png")
        with Image.open(tmp_path / "curves.png") as image:
            assert image.width > image.height > 300


@pytest.mark.parametrize(("count", "wrong"), [(3, 1), (40, 5), (40, 40), (40, 0)])
def test_image_grid_shows_errors_first(tmp_path, monkeypatch, count, wrong):
    figures = []
    monkeypatch.setattr(classification, "save_figure", lambda figure, _: figures.append(figure))
    labels = np.arange(count) % 2
    predicted = labels.copy()
    predicted[count - wrong :] ^= 1
    classification.plot_predictions(
        np.zeros((count, 8, 8, 3)),
        labels,
        0.1 + 0.8 * np.eye(2)[predicted],
        ["cat", "dog"],
        "title",
        tmp_path / "predictions.png",
    )
    axes = [axis for axis in figures[0].axes if axis.axison]
    assert len(axes) == min(count, 32)
    marked = [axis.title.get_fontweight() == "bold" for axis in axes]
    assert marked == sorted(marked, reverse=True)
    assert sum(marked) == (32 if wrong == count else min(wrong, 16))
    for axis, is_wrong in zip(axes, marked, strict=True):
        assert axis.get_title().endswith("90 %")
        true = axis.get_xlabel().removeprefix("true: ")
        assert (axis.get_title().split()[0] != true) == is_wrong


def test_image_grid_is_drawn(tmp_path):
    images = np.full((2, 8, 8, 3), 255.0)
    images[..., 1:] = 0
    classification.plot_predictions(
        images, np.array([0, 1]), np.eye(2), ["a", "b"], "title", tmp_path / "predictions.png"
    )
    with Image.open(tmp_path / "predictions.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    assert (pixels == [255, 0, 0]).all(-1).mean() > 0.05


def test_mistakes_come_by_number():
    confusion = np.array([[9, 1, 0], [4, 5, 0], [0, 2, 0]])
    assert classification.confusions(confusion) == [(1, 0, 4), (2, 1, 2), (0, 1, 1)]
    assert classification.confusions(np.diag([3, 0, 2])) == []


def draw_confusion(confusion, names, path, monkeypatch) -> tuple[list[str], np.ndarray]:
    """Draws a picture; returns the texts in it and its pixels."""
    texts, save = [], classification.save_figure

    def spy(figure, path):
        (axis,) = figure.axes
        labels = [*axis.texts, *axis.get_xticklabels(), *axis.get_yticklabels(), axis._left_title]
        texts.extend(text.get_text() for text in labels)
        save(figure, path)

    monkeypatch.setattr(classification, "save_figure", spy)
    classification.plot_confusion(confusion, names, "lambda_resnet14: 0.9", path)
    with Image.open(path) as picture:
        return texts, np.asarray(picture.convert("RGB"))


@pytest.mark.parametrize("count", [2, 10, 20])
def test_confusion_of_few_classes_has_all_counts_and_names(tmp_path, monkeypatch, count):
    names = [rf"class {i} of $\oops$ {'with a long name' * (i % 2)}" for i in range(count)]
    confusion = np.diag(np.arange(count) + 100_000)
    confusion[0, 1] = 77
    texts, pixels = draw_confusion(confusion, names, tmp_path / "few.png", monkeypatch)
    assert len([text for text in texts if text == "77"]) == 1
    assert texts.count("100k") == count
    for name in names:
        shown = name if len(name) <= 24 else name[:23] + "…"
        assert texts.count(shown) == 2
    assert max(pixels.shape) < 2200
    # Right ones are blue, and mistakes red; the cell is as large as a count needs.
    blue = (pixels == (31, 95, 191)).all(-1).sum()
    assert blue > 0.6 * (count - 1) * 50**2


def test_classes_without_images_are_blank(tmp_path, monkeypatch):
    texts, pixels = draw_confusion(np.zeros((3, 3), int), "abc", tmp_path / "no.png", monkeypatch)
    assert [text for text in texts if text] == list("abc" * 2)
    assert (pixels == 255).all(-1).mean() > 0.9


@pytest.mark.parametrize("mistakes", [0, 3, 60])
def test_confusion_of_many_classes_has_the_most_frequent_mistakes(tmp_path, monkeypatch, mistakes):
    confusion = np.diag(np.full(1000, 50))
    for i in range(mistakes):
        confusion[i, i + 1] = 100 - i
    names = [f"${i}" for i in range(1000)]
    texts, pixels = draw_confusion(confusion, names, tmp_path / "many.png", monkeypatch)
    shown = [text for text in texts if "→" in text]
    assert shown == [f"${i} → ${i + 1}" for i in range(min(mistakes, 25))]
    assert ("100  67%" in texts) == (mistakes > 0)
    assert ("No errors" in texts) == (mistakes == 0)
    assert max(pixels.shape) < 2200


def test_reliability_before_and_after_calibration(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(classification, "save_figure", lambda figure, _: figures.append(figure))
    bins = np.array([0, 4]), np.array([0, 0.8]), np.array([0, 0.75])
    for before in (None, bins):
        path = tmp_path / "reliability.png"
        classification.plot_reliability(*bins, "title", path, before=before)
    lines = [[line.get_label() for line in figure.axes[0].lines] for figure in figures]
    assert lines[0] == ["perfect calibration", "accuracy"]
    assert lines[1] == ["perfect calibration", "before", "accuracy, calibrated"]
    np.testing.assert_allclose(figures[1].axes[0].lines[1].get_xydata(), [[0.8, 0.75]])


@pytest.mark.parametrize("names", [[""], ["before", "after calibration"]])
def test_selection_has_lines_for_precision_and_for_images_kept(tmp_path, monkeypatch, names):
    figures = []
    monkeypatch.setattr(classification, "save_figure", lambda figure, _: figures.append(figure))
    curve = np.array([0.9, 0.5]), np.array([0.5, 1]), np.array([1, 0.5])
    classification.plot_selection(dict.fromkeys(names, curve), "title", tmp_path / "a.png")
    left, right = figures[0].axes
    assert (len(left.lines), len(right.lines)) == (2 * len(names), len(names))
    np.testing.assert_allclose(right.lines[0].get_xydata(), [[50, 100], [100, 50]])


def test_corruptions_have_a_row_each(tmp_path):
    errors = np.linspace(0.1, 0.9, 15).reshape(3, 5)
    names, path = ["fog", "snow", "frost"], tmp_path / "corruptions.png"
    classification.plot_corruptions(names, errors, [0.5, 0.6, 0.7], "title", path)
    with Image.open(path) as image:
        assert min(image.size) > 300
