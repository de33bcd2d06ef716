"""Figures: right images marked, files whole."""

import numpy as np
import pytest
from PIL import Image

from zoo.plots import classification


@pytest.mark.parametrize("epochs", [1, 30])
def test_curves(tmp_path, figures, epochs):
    names = ("loss", "val_loss", "accuracy", "val_accuracy")
    history = {name: np.linspace(0.5, 0.6 + i / 9, epochs).tolist() for i, name in enumerate(names)}
    classification.plot_curves(history, "title", tmp_path / "curves.png")
    loss, accuracy = figures[0].axes
    for axis, (own, test), scale in ((loss, names[:2], 1), (accuracy, names[2:], 100)):
        assert [line.get_label() for line in axis.lines] == ["training images", "test images"]
        for line, name in zip(axis.lines, (own, test), strict=True):
            np.testing.assert_allclose(line.get_ydata(), scale * np.array(history[name]))
            assert line.get_xdata().tolist() == list(range(1, epochs + 1))
    assert accuracy.texts[0].get_text() == f"{100 * history['val_accuracy'][-1]:.2f}"
    with Image.open(tmp_path / "curves.png") as image:
        assert image.width > image.height > 300


def test_curves_of_losses_that_were_not_finite(tmp_path, figures):
    history = {name: [0.5, 0.25] for name in ("loss", "accuracy", "val_accuracy")}
    classification.plot_curves(history | {"val_loss": [0.5, None]}, "", tmp_path / "curves.png")
    np.testing.assert_array_equal(figures[0].axes[0].lines[1].get_ydata(), [0.5, np.nan])


@pytest.mark.parametrize(("count", "wrong"), [(3, 1), (40, 5), (40, 40), (40, 0)])
def test_image_grid_shows_errors_first(tmp_path, figures, count, wrong):
    labels = np.arange(count) % 2
    predicted = labels.copy()
    predicted[count - wrong :] ^= 1
    images = np.zeros((count, 8, 8, 3))
    images[..., 0] = 255
    probabilities = 0.1 + 0.8 * np.eye(2)[predicted]
    path = tmp_path / "predictions.png"
    names = ["cat", "dog"]
    classification.plot_predictions(images, labels, probabilities, names, "title", path)
    axes = [axis for axis in figures[0].axes if axis.axison]
    assert len(axes) == min(count, 32)
    marked = [axis.title.get_fontweight() == "bold" for axis in axes]
    assert marked == sorted(marked, reverse=True)
    assert sum(marked) == (32 if wrong == count else min(wrong, 16))
    for axis, is_wrong in zip(axes, marked, strict=True):
        assert axis.get_title().endswith("90 %")
        true = axis.get_xlabel().removeprefix("true: ")
        assert (axis.get_title().split()[0] != true) == is_wrong
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    assert (pixels == [255, 0, 0]).all(-1).mean() > 0.05


@pytest.mark.parametrize(("count", "top"), [(1, 1), (3, 12)])
def test_scores(tmp_path, figures, count, top):
    """Names are no formulas, and wrong as such."""
    red = np.full((32, 32, 3), (255.0, 0, 0))
    scores = [(rf"class {i} of $\oops$" + "\x1b", 0.5**i) for i in range(top)]
    path = tmp_path / "scores.png"
    classification.plot_scores([(r"$\oops$.png" + "x" * 99, red, scores)] * count, "title", path)
    with Image.open(path) as grid:
        pixels = np.asarray(grid.convert("RGB"))
    assert (pixels == (255, 0, 0)).all(-1).sum() / count > 200**2, "the images are small"
    pairs = figures[0].axes[: 2 * count]
    assert [axis.get_title(loc="left")[:13] for axis in pairs[::2]] == [r"$\oops$.pngxx"] * count
    for bars in pairs[1::2]:
        texts = [text.get_text() for text in bars.texts]
        assert texts[::2] == [rf"class {i} of $\oops$\x1b" for i in range(top)]
        assert texts[1::2] == [f"{0.5**i:.1%}" for i in range(top)]
        assert [bar.get_width() for bar in bars.patches[top:]] == [0.5**i for i in range(top)]


def test_mistakes_come_by_number():
    confusion = np.array([[9, 1, 0], [4, 5, 0], [0, 2, 0]])
    assert classification.confusions(confusion) == [(1, 0, 4), (2, 1, 2), (0, 1, 1)]
    assert classification.confusions(np.diag([3, 0, 2])) == []


def draw_confusion(confusion, names, path, figures) -> tuple[list[str], np.ndarray]:
    """Draws a picture; returns the texts in it and its pixels."""
    classification.plot_confusion(confusion, names, "lambda_resnet14: 0.9", path)
    (axis,) = figures[0].axes
    labels = [*axis.texts, *axis.get_xticklabels(), *axis.get_yticklabels(), axis._left_title]
    with Image.open(path) as picture:
        return [text.get_text() for text in labels], np.asarray(picture.convert("RGB"))


@pytest.mark.parametrize("count", [2, 20])
def test_confusion_of_few_classes_has_all_counts_and_names(tmp_path, figures, count):
    names = [rf"class {i} of $\oops$ {'with a long name' * (i % 2)}" for i in range(count)]
    confusion = np.diag(np.arange(count) + 100_000)
    confusion[0, 1] = 77
    texts, pixels = draw_confusion(confusion, names, tmp_path / "few.png", figures)
    assert texts.count("77") == 1
    assert texts.count("100k") == count
    for name in names:
        assert texts.count(name if len(name) <= 24 else name[:23] + "…") == 2
    assert max(pixels.shape) < 2200
    # Right ones are blue, and mistakes red; the cell is as large as a count needs.
    assert (pixels == (31, 95, 191)).all(-1).sum() > 0.6 * (count - 1) * 50**2


def test_classes_without_images_are_blank(tmp_path, figures):
    texts, pixels = draw_confusion(np.zeros((3, 3), int), "abc", tmp_path / "no.png", figures)
    assert [text for text in texts if text] == list("abc" * 2)
    assert (pixels == 255).all(-1).mean() > 0.9


@pytest.mark.parametrize("mistakes", [0, 60])
def test_confusion_of_many_classes_has_the_most_frequent_mistakes(tmp_path, figures, mistakes):
    confusion = np.diag(np.full(1000, 50))
    for i in range(mistakes):
        confusion[i, i + 1] = 100 - i
    names = [f"${i}" for i in range(1000)]
    texts, pixels = draw_confusion(confusion, names, tmp_path / "many.png", figures)
    shown = [text for text in texts if "→" in text]
    assert shown == [f"${i} → ${i + 1}" for i in range(min(mistakes, 25))]
    assert ("100  67%" in texts) == (mistakes > 0)
    assert ("No errors" in texts) == (mistakes == 0)
    assert max(pixels.shape) < 2200


@pytest.mark.parametrize("names", [[""], ["before", "after calibration"]])
def test_selection_has_lines_for_precision_and_for_images_kept(tmp_path, figures, names):
    curve = np.array([0.9, 0.5]), np.array([0.25, 1]), np.array([1, 0.5])
    classification.plot_selection(dict.fromkeys(names, curve), "title", tmp_path / "a.png")
    left, right = figures[0].axes
    assert (len(left.lines), len(right.lines)) == (2 * len(names), len(names))
    np.testing.assert_allclose(left.lines[0].get_xydata(), [[0.9, 100], [0.5, 50]])
    np.testing.assert_allclose(left.lines[1].get_xydata(), [[0.9, 25], [0.5, 100]])
    np.testing.assert_allclose(right.lines[0].get_xydata(), [[25, 100], [100, 50]])
