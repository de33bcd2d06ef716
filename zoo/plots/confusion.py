"""Confusion matrix."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zoo.errors import needs_extra

with needs_extra("train"):
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm
    from matplotlib.ticker import MaxNLocator

from zoo.plots.style import INK, PALE, TEST, WRONG, Axes, new_figure, open_frame, save_figure

MAX_CELLS = 20  # classes whose counts are legible in a matrix
MAX_PAIRS = 25  # bars, where there are more classes


def confusions(confusion: np.ndarray) -> list[tuple[int, int, int]]:
    """Returns errors as (true class, predicted class, number of images), most frequent first."""
    mistakes = confusion * ~np.eye(len(confusion), dtype=bool)
    true, predicted = np.nonzero(mistakes)
    counts = mistakes[true, predicted]
    order = np.argsort(-counts, kind="stable")
    return list(
        zip(true[order].tolist(), predicted[order].tolist(), counts[order].tolist(), strict=True)
    )


def plot_confusion(
    confusion: np.ndarray, class_names: Sequence[str], title: str, path: Path
) -> None:
    """Draws a confusion matrix, or for many classes its most frequent errors, into a PNG file.

    Args:
        confusion: Numbers of images by true class (row) and predicted class (column).
        class_names: Names of the classes.
        title: Title of the figure.
        path: File to write.
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
    axis.set_xticks(np.arange(len(names) - 1) + 0.5, minor=True)
    axis.set_yticks(np.arange(len(names) - 1) + 0.5, minor=True)
    axis.grid(which="minor", color=PALE, lw=0.8)
    axis.tick_params(which="both", length=0)
    axis.tick_params(colors=INK)
    axis.spines[:].set_color(PALE)


def _draw_pairs(
    axis: Axes,
    confusion: np.ndarray,
    names: Sequence[str],
    pairs: Sequence[tuple[int, int, int]],
) -> None:
    axis.set_title(
        "Most frequent mistakes" if pairs else "No mistakes", loc="left", fontsize=10.5, color=INK
    )
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
