"""Figure of pseudo-labels: their scores and classes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zoo.plots.style import INK, PALE, TEST, TRAIN, new_figure, open_frame, save_figure

MAX_NAMES = 20  # classes whose names are legible below bars


def plot_labels(
    scores: np.ndarray, classes: np.ndarray, class_names: Sequence[str], title: str, path: Path
) -> None:
    """Draws numbers of images by score, in equal bins of [0, 1], and by class, into a PNG file.

    Many classes are sorted by their number of images, and have no names.
    """
    figure = new_figure(11, 4.2, title)
    left, right = figure.subplots(1, 2)
    width = 1 / len(scores)
    left.bar(width * np.arange(len(scores)), scores, width, align="edge", color=TEST)
    left.set_xlim(0, 1)
    left.set_xlabel("Score: probability of the most probable class", color=INK)
    if len(classes) <= MAX_NAMES:
        right.bar(range(len(classes)), classes, color=TRAIN)
        names = [name if len(name) <= 24 else f"{name[:23]}…" for name in class_names]
        tilt = 0 if max(map(len, names)) <= 3 else 90
        right.set_xticks(range(len(classes)), names, rotation=tilt, parse_math=False)
        right.set_xlabel("Most probable class", color=INK)
    else:
        right.fill_between(range(len(classes)), -np.sort(-classes), step="post", color=TRAIN)
        right.set_xlim(0, len(classes))
        right.set_xlabel("Classes, the most frequent one first", color=INK)
    for axis in (left, right):
        axis.set_ylabel("Images", color=INK)
        axis.set_ylim(bottom=0)
        axis.grid(axis="y", color=PALE, lw=0.8)
        axis.set_axisbelow(True)
        open_frame(axis)
    save_figure(figure, path)
