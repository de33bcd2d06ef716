"""Figures of a classifier: training curves, predictions, confusions, thresholds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from zoo.errors import needs_extra, printable
from zoo.plots.style import (
    INK,
    PALE,
    TEST,
    TRAIN,
    WRONG,
    Axes,
    image_grid,
    new_figure,
    save_figure,
    shortened,
    styled,
)

with needs_extra("train"):
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm
    from matplotlib.ticker import MaxNLocator

COLUMNS, ROWS = 8, 4  # of image grids, at most
MAX_CELLS = 20  # classes whose counts are legible in a matrix
MAX_PAIRS = 25  # bars, where there are more classes


@styled
def plot_curves(history: Mapping[str, Sequence[float]], title: str, path: Path) -> None:
    """Draws loss and accuracy by epoch, as `keras.callbacks.History` has them, into a PNG file."""
    figure = new_figure(10, 4.2, title)
    epochs = np.arange(1, len(history["loss"]) + 1)
    panels = {
        "loss": (1, "Loss (label smoothing included)"),
        "accuracy": (100, "Top-1 accuracy (%)"),
    }
    loss, accuracy = figure.subplots(1, 2)
    for axis, (name, (scale, heading)) in zip((loss, accuracy), panels.items(), strict=True):
        for key, label, color, width in (
            (name, "training images", TRAIN, 1.8),
            (f"val_{name}", "test images", TEST, 2.2),
        ):
            style = {"color": color, "lw": width, "marker": "o" if len(epochs) < 10 else None}
            axis.plot(epochs, scale * np.asarray(history[key], float), ms=4, label=label, **style)
        axis.set(title=heading, xlabel="Epoch")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid()
    loss.set_ylim(bottom=0)
    loss.legend()
    accuracy.set_ylim(top=100.5)
    last = 100 * np.asarray(history["val_accuracy"], float)[-1]
    style = {"textcoords": "offset points", "color": TEST, "fontweight": "bold"}
    accuracy.annotate(f"{last:.2f}", (len(epochs), last), (6, -3), annotation_clip=False, **style)
    save_figure(figure, path)


@styled
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
        color, weight, frame, width = (INK, "normal", PALE, 1)
        if choice != label:
            color, weight, frame, width = (WRONG, "bold", WRONG, 2.5)
        head = f"{class_names[choice]}  {100 * probabilities[i, choice]:.0f} %"
        axis.set_axis_on()
        axis.imshow(np.clip(images[i], 0, 255).astype("uint8"))
        axis.set(xticks=[], yticks=[])
        style = {"fontsize": 9.5, "color": color, "fontweight": weight}
        axis.set_title(head, loc="center", pad=3, **style)
        axis.set_xlabel(f"true: {class_names[label]}", fontsize=8.5, color=color, labelpad=2)
        axis.spines[:].set(visible=True, color=frame, linewidth=width)
    save_figure(figure, path)


@styled
def plot_scores(
    images: Sequence[tuple[str, np.ndarray, Sequence[tuple[str, float]]]], title: str, path: Path
) -> None:
    """Draws images with bars for their most probable classes into a PNG file.

    Each image has a heading, pixels in [0, 255], and names and probabilities of classes.
    """
    columns = min(len(images), 2)
    rows, most = -(-len(images) // columns), len(images[0][2])
    figure = new_figure(6.2 * columns, max(2.7, 0.4 * most + 0.7) * rows + 0.6, title)
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.12)
    axes = figure.subplots(rows, 2 * columns, squeeze=False, width_ratios=[1, 1.25] * columns)
    for axis in axes.flat:
        axis.set_axis_off()
    cells = zip(axes[:, ::2].flat, axes[:, 1::2].flat, strict=True)
    for (heading, pixels, scores), (image, bars) in zip(images, cells, strict=False):
        image.imshow(pixels.astype("uint8"))
        image.set_anchor("NW")
        image.set_title(heading[:60], fontsize=10)  # as much as fits above an image and its bars
        bars.barh(range(most), 1, height=0.22, color=PALE)
        bars.barh(range(most), [value for _, value in scores], height=0.22, color=TEST)
        for place, (name, value) in enumerate(scores):
            style = {"y": place - 0.2, "va": "bottom", "fontsize": 9.5}
            bars.text(0, s=printable(name), ha="left", **style)
            bars.text(1, s=f"{value:.1%}", ha="right", **style)
        bars.set(xlim=(0, 1), ylim=(max(most, 5) - 0.6, -0.8))
    save_figure(figure, path)


def confusions(confusion: np.ndarray) -> list[tuple[int, int, int]]:
    """Returns errors as (true class, predicted class, number of images), most frequent first."""
    errors = confusion - np.diag(np.diagonal(confusion))
    rows = [(true, said, int(errors[true, said])) for true, said in np.argwhere(errors).tolist()]
    return sorted(rows, key=lambda error: -error[2])


@styled
def plot_confusion(
    confusion: np.ndarray, class_names: Sequence[str], title: str, path: Path
) -> None:
    """Draws a confusion matrix, or for many classes its most frequent errors, into a PNG file.

    Its rows are true classes, its columns predicted ones.
    """
    names = shortened(class_names)
    if len(names) <= MAX_CELLS:
        side = 0.46 * len(names) + 2.6
        figure = new_figure(max(side, 7.5), side, title)
        _draw_cells(figure.subplots(), confusion, names)
    else:
        pairs = confusions(confusion)[:MAX_PAIRS]
        figure = new_figure(9, 0.3 * len(pairs) + 1.5, title)
        _draw_pairs(figure.subplots(), confusion.sum(1), names, pairs)
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
    axis.set_xticks(places, names, rotation=tilt)
    axis.set_yticks(places, names)
    axis.set(xlabel="Predicted class", ylabel="True class")
    between = np.arange(len(names) - 1) + 0.5
    axis.set_xticks(between, minor=True)
    axis.set_yticks(between, minor=True)
    axis.grid(which="minor")
    axis.tick_params(which="both", length=0)
    axis.spines[:].set(visible=True, color=PALE)


def _draw_pairs(
    axis: Axes, images: np.ndarray, names: Sequence[str], pairs: Sequence[tuple[int, int, int]]
) -> None:
    axis.set_title("Most frequent errors" if pairs else "No errors")
    if not pairs:
        axis.set_axis_off()
        return
    axis.barh(range(len(pairs)), [count for *_, count in pairs], color=WRONG, height=0.6)
    for row, (true, _, count) in enumerate(pairs):
        text, style = f"{count}  {count / images[true]:.0%}", {"va": "center", "fontsize": 9}
        axis.annotate(text, (count, row), (4, 0), textcoords="offset points", **style)
    labels = [f"{names[true]} → {names[predicted]}" for true, predicted, _ in pairs]
    axis.set_yticks(range(len(pairs)), labels, fontsize=9.5)
    axis.set_ylabel("True class → predicted class")
    axis.set_xlabel("Images, and their part of the true class")
    axis.invert_yaxis()
    axis.margins(x=0.12, y=0.01)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


@styled
def plot_selection(
    curves: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]], title: str, path: Path
) -> None:
    """Draws kept images and their precision, by threshold of the score, into a PNG file.

    A curve has thresholds, the fraction of images that score at least as high, and the fraction of
    these whose prediction is right; its name labels a line.
    """
    figure = new_figure(10, 4.2, title)
    by_threshold, by_kept = figure.subplots(1, 2)
    colors = (TEST,) if len(curves) == 1 else (TRAIN, TEST)
    for (name, (threshold, kept, precision)), color in zip(curves.items(), colors, strict=True):
        suffix = f", {name}" if name else ""
        # All thresholds between two neighboring scores keep the same images.
        style = {"color": color, "drawstyle": "steps-post"}
        by_threshold.plot(threshold, 100 * precision, **style, label=f"precision{suffix}")
        by_threshold.plot(threshold, 100 * kept, **style, ls=":", label=f"images kept{suffix}")
        by_kept.plot(100 * kept, 100 * precision, color=color, label=name)
    by_threshold.set(xlabel="Threshold of the score", ylabel="%", xlim=(0, 1), ylim=(0, 101))
    by_threshold.legend(loc="lower left")
    by_kept.set(xlabel="Images kept (%)", ylabel="Precision (%)", xlim=(0, 101))
    if len(curves) > 1:
        by_kept.legend()
    for axis in (by_threshold, by_kept):
        axis.grid()
    save_figure(figure, path)
