"""Figures of a classifier: training curves, predictions, confusions, reliability, thresholds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from zoo.errors import needs_extra
from zoo.plots.style import (
    INK,
    PALE,
    TEST,
    TRAIN,
    WRONG,
    Axes,
    image_grid,
    new_figure,
    open_frame,
    save_figure,
)

with needs_extra("train"):
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm
    from matplotlib.ticker import MaxNLocator

COLUMNS, ROWS = 8, 4  # of image grids, at most
MAX_CELLS = 20  # classes whose counts are legible in a matrix
MAX_PAIRS = 25  # bars, where there are more classes


def plot_curves(history: dict[str, list[float]], title: str, path: Path) -> None:
    """Draws loss and accuracy by epoch, as `keras.callbacks.History` has them, into a PNG file."""
    figure = new_figure(10, 4.2, title)
    loss, accuracy = figure.subplots(1, 2)
    _curve(loss, history["loss"], history["val_loss"], "Loss (label smoothing included)")
    loss.set_ylim(bottom=0)
    train, test = (100 * np.asarray(history[key]) for key in ("accuracy", "val_accuracy"))
    _curve(accuracy, train, test, "Top-1 accuracy (%)")
    accuracy.set_ylim(top=100.5)
    style = {"textcoords": "offset points", "color": TEST, "fontweight": "bold"}
    end = (len(test), test[-1])
    accuracy.annotate(f"{test[-1]:.2f}", end, (6, -3), annotation_clip=False, **style)
    loss.legend(frameon=False, labelcolor=INK)
    save_figure(figure, path)


def _curve(axis: Axes, train: ArrayLike, test: ArrayLike, title: str) -> None:
    epochs = np.arange(1, np.size(train) + 1)
    marker = "o" if len(epochs) < 10 else None
    axis.plot(epochs, train, color=TRAIN, marker=marker, lw=1.8, ms=4, label="training images")
    axis.plot(epochs, test, color=TEST, marker=marker, lw=2.2, ms=4, label="test images")
    axis.set_title(title, loc="left", fontsize=10.5, color=INK)
    axis.set_xlabel("Epoch", color=INK)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(color=PALE, lw=0.8)
    open_frame(axis)


def plot_predictions(
    images: np.ndarray,
    labels: np.ndarray,
    probabilities: np.ndarray,
    class_names: Sequence[str],
    title: str,
    path: Path,
) -> None:
    """Draws test images with their predicted and true classes into a PNG file.

    Errors come first, in red; they are at most half of the images, if there are enough others.
    Images are of shape `(count, height, width, 3)`, in [0, 255], labels of shape `(count,)`,
    probabilities of shape `(count, classes)`.
    """
    predicted = probabilities.argmax(-1)
    wrong, right = np.flatnonzero(predicted != labels), np.flatnonzero(predicted == labels)
    room = min(ROWS * COLUMNS, len(images))
    mistakes = wrong[: max(room // 2, room - len(right))]
    shown = [*mistakes, *right[: room - len(mistakes)]]
    figure, axes = image_grid(len(shown), COLUMNS, 1.45, 1.78, title)
    for axis, i in zip(axes, shown, strict=True):
        choice, label = int(predicted[i]), int(labels[i])
        color, weight, frame = (INK, "normal", PALE)
        if choice != label:
            color, weight, frame = (WRONG, "bold", WRONG)
        head = f"{class_names[choice]}  {100 * probabilities[i, choice]:.0f} %"
        axis.set_axis_on()
        axis.imshow(np.clip(images[i], 0, 255).astype("uint8"))
        axis.set(xticks=[], yticks=[])
        axis.set_title(head, fontsize=9.5, color=color, fontweight=weight, pad=3)
        axis.set_xlabel(f"true: {class_names[label]}", fontsize=8.5, color=color, labelpad=2)
        axis.spines[:].set(color=frame, linewidth=1 if choice == label else 2.5)
    save_figure(figure, path)


def confusions(confusion: np.ndarray) -> list[tuple[int, int, int]]:
    """Returns errors as (true class, predicted class, number of images), most frequent first."""
    errors = [
        (true, predicted, int(confusion[true, predicted]))
        for true, predicted in np.argwhere(confusion).tolist()
        if true != predicted
    ]
    return sorted(errors, key=lambda error: -error[2])


def plot_confusion(
    confusion: np.ndarray, class_names: Sequence[str], title: str, path: Path
) -> None:
    """Draws a confusion matrix, or for many classes its most frequent errors, into a PNG file.

    Its rows are true classes, its columns predicted ones.
    """
    names = [name if len(name) <= 24 else f"{name[:23]}…" for name in class_names]
    if len(names) <= MAX_CELLS:
        side = 0.46 * len(names) + 2.6
        figure = new_figure(max(side, 7.5), side, title)
        _draw_cells(figure.subplots(), confusion, names)
    else:
        pairs = confusions(confusion)[:MAX_PAIRS]
        figure = new_figure(9, 0.3 * len(pairs) + 1.5, title)
        _draw_pairs(figure.subplots(), confusion, names, pairs)
    save_figure(figure, path)


def _draw_cells(axis: Axes, confusion: np.ndarray, names: Sequence[str]) -> None:
    share = confusion / np.maximum(confusion.sum(1, keepdims=True), 1)
    right = np.eye(len(names), dtype=bool)
    for cells, color in ((right, TEST), (~right, WRONG)):
        shades = LinearSegmentedColormap.from_list("", ["white", color])
        # The square root shows rare errors, too.
        axis.imshow(np.ma.array(share, mask=~cells), shades, norm=PowerNorm(0.5, 0, 1))
    for (row, column), count in np.ndenumerate(confusion):
        if count:
            color = "white" if share[row, column] > 0.3 else INK
            text = f"{count}" if count < 10_000 else f"{count / 1000:.0f}k"
            axis.text(column, row, text, ha="center", va="center", fontsize=8.5, color=color)
    places, tilt = range(len(names)), 0 if max(map(len, names)) <= 5 else 90
    axis.set_xticks(places, names, rotation=tilt, parse_math=False)
    axis.set_yticks(places, names, parse_math=False)
    axis.set_xlabel("Predicted class", color=INK)
    axis.set_ylabel("True class", color=INK)
    between = np.arange(len(names) - 1) + 0.5
    axis.set_xticks(between, minor=True)
    axis.set_yticks(between, minor=True)
    axis.grid(which="minor", color=PALE, lw=0.8)
    axis.tick_params(which="both", length=0, colors=INK)
    axis.spines[:].set_color(PALE)


def _draw_pairs(
    axis: Axes, confusion: np.ndarray, names: Sequence[str], pairs: Sequence[tuple[int, int, int]]
) -> None:
    head = "Most frequent errors" if pairs else "No errors"
    axis.set_title(head, loc="left", fontsize=10.5, color=INK)
    if not pairs:
        axis.set_axis_off()
        return
    images_of = confusion.sum(1)
    axis.barh(range(len(pairs)), [count for _, _, count in pairs], color=WRONG, height=0.6)
    style = {"textcoords": "offset points", "va": "center", "fontsize": 9, "color": INK}
    for row, (true, _, count) in enumerate(pairs):
        axis.annotate(f"{count}  {count / images_of[true]:.0%}", (count, row), (4, 0), **style)
    labels = [f"{names[true]} → {names[predicted]}" for true, predicted, _ in pairs]
    axis.set_yticks(range(len(pairs)), labels, fontsize=9.5, parse_math=False)
    axis.set_ylabel("True class → predicted class", color=INK)
    axis.set_xlabel("Images, and their part of the true class", color=INK)
    axis.invert_yaxis()
    axis.margins(x=0.12, y=0.01)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    open_frame(axis)


def plot_reliability(
    count: np.ndarray,
    confidence: np.ndarray,
    accuracy: np.ndarray,
    title: str,
    path: Path,
    before: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
) -> None:
    """Draws accuracy and number of images in bins of confidence, from 0 to 1, into a PNG file.

    `before` has the same three arrays before calibration, drawn as a second line.
    """
    width = 1 / len(count)
    left, some = width * np.arange(len(count)), count > 0
    figure = new_figure(6, 6.5, title)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=(3, 1))
    upper.plot([0, 1], [0, 1], color=TRAIN, lw=1, ls="--", label="perfect calibration")
    upper.bar(left[some], accuracy[some], width, align="edge", color=TEST, alpha=0.35)
    label = "accuracy" if before is None else "accuracy, calibrated"
    if before is not None:
        there = before[0] > 0
        upper.plot(before[1][there], before[2][there], "o-", color=WRONG, label="before")
        lower.stairs(before[0], np.arange(len(count) + 1) * width, color=WRONG)
    upper.plot(confidence[some], accuracy[some], "o-", color=TEST, label=label)
    upper.set_ylabel("Accuracy", color=INK)
    upper.set(xlim=(0, 1), ylim=(0, 1.02))
    upper.legend(frameon=before is not None, loc="upper left" if before is None else "best")
    lower.bar(left, count, width, align="edge", color=TRAIN)
    lower.set_ylabel("Images", color=INK)
    lower.set_xlabel("Confidence: probability of the predicted class", color=INK)
    for axis in (upper, lower):
        open_frame(axis)
        axis.grid(axis="y", color=PALE, lw=0.8)
        axis.set_axisbelow(True)
    save_figure(figure, path)


def plot_selection(
    curves: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]], title: str, path: Path
) -> None:
    """Draws what thresholds of the score keep, and their precision, into a PNG file.

    A curve has thresholds, the fraction of images with such a score or a higher one, and the
    fraction of these whose prediction is right; its name is that of a line.
    """
    figure = new_figure(10, 4.2, title)
    by_threshold, by_kept = figure.subplots(1, 2)
    colors = (TEST,) if len(curves) == 1 else (TRAIN, TEST)
    for (name, (threshold, kept, precision)), color in zip(curves.items(), colors, strict=True):
        suffix = f", {name}" if name else ""
        # From a score to the next one below it, a threshold keeps the same images.
        style = {"color": color, "drawstyle": "steps-post"}
        by_threshold.plot(threshold, 100 * precision, **style, label=f"precision{suffix}")
        by_threshold.plot(threshold, 100 * kept, **style, ls=":", label=f"images kept{suffix}")
        by_kept.plot(100 * kept, 100 * precision, color=color, label=name)
    by_threshold.set_xlabel("Threshold of the score", color=INK)
    by_threshold.set_ylabel("%", color=INK)
    by_threshold.set(xlim=(0, 1), ylim=(0, 101))
    by_threshold.legend(frameon=False, labelcolor=INK, loc="lower left")
    by_kept.set_xlabel("Images kept (%)", color=INK)
    by_kept.set_ylabel("Precision (%)", color=INK)
    by_kept.set(xlim=(0, 101))
    if len(curves) > 1:
        by_kept.legend(frameon=False, labelcolor=INK)
    for axis in (by_threshold, by_kept):
        axis.grid(color=PALE, lw=0.8)
        open_frame(axis)
    save_figure(figure, path)


def plot_corruptions(
    names: Sequence[str],
    errors: np.ndarray,
    alexnet: Sequence[float],
    title: str,
    path: Path,
) -> None:
    """Draws top-1 errors by corruption and severity next to AlexNet's means, into a PNG file.

    Errors are from 0 to 1, of shape `(corruptions, severities)`, the lowest severity first.
    """
    figure = new_figure(8, 0.34 * len(names) + 1.6, title)
    axis, rows = figure.subplots(), np.arange(len(names))
    axis.barh(rows, 100 * errors.mean(1), color=TEST, alpha=0.35, height=0.6, label="mean")
    severities = errors.shape[1]
    for severity, column in enumerate(errors.T):
        label = f"severities 1 to {severities}" if severity == severities - 1 else None
        size = 8 + 10 * severity
        axis.scatter(100 * column, rows, size, color=TEST, label=label, zorder=3)
    style: dict[str, Any] = {"marker": "|", "zorder": 4}
    axis.scatter(100 * np.asarray(alexnet), rows, 60, WRONG, label="AlexNet, mean", **style)
    axis.set_yticks(rows, names, parse_math=False)
    axis.invert_yaxis()
    axis.set_xlabel("Top-1 error (%)", color=INK)
    axis.set_xlim(0, 101)
    axis.legend(frameon=False, labelcolor=INK, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    axis.grid(axis="x", color=PALE, lw=0.8)
    axis.set_axisbelow(True)
    open_frame(axis)
    save_figure(figure, path)
