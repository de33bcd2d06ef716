"""Figures of pseudo-labels: scores, classes and images."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np

from zoo.plots.style import TEST, TRAIN, new_figure, save_figure, shortened, styled

MAX_NAMES = 20  # classes whose names are legible below bars


@styled
def plot_labels(
    scores: np.ndarray, classes: np.ndarray, class_names: Sequence[str], title: str, path: Path
) -> None:
    """Draws image counts by score, in equal bins of [0, 1], and by class, into a PNG file.

    Many classes are sorted by their number of images, and have no names.
    """
    figure = new_figure(11, 4.2, title)
    left, right = figure.subplots(1, 2)
    width = 1 / len(scores)
    left.bar(width * np.arange(len(scores)), scores, width, align="edge", color=TEST)
    left.set(xlim=(0, 1), xlabel="Score: probability of the most probable class")
    if len(classes) <= MAX_NAMES:
        right.bar(range(len(classes)), classes, color=TRAIN)
        names = shortened(class_names)
        tilt = 0 if max(map(len, names)) <= 3 else 90
        right.set_xticks(range(len(classes)), names, rotation=tilt)
        right.set_xlabel("Most probable class")
    else:
        right.fill_between(range(len(classes)), -np.sort(-classes), step="post", color=TRAIN)
        right.set(xlim=(0, len(classes)), xlabel="Classes, the most frequent one first")
    for axis in (left, right):
        axis.set_ylabel("Images")
        axis.set_ylim(bottom=0)
        axis.grid(axis="y")
    save_figure(figure, path)


Scored = Sequence[tuple[bytes, float]]  # image files and scores, the most confident one first


@styled
def plot_extremes(rows: Sequence[tuple[str, Scored, Scored]], path: Path) -> None:
    """Draws the most and the least confident images of each class into a PNG file."""
    from PIL import Image

    columns = max(len(best) + len(worst) for _, best, worst in rows)
    title = "Selected images of a class: the most confident ones, then the least confident ones"
    figure = new_figure(max(1.1 * columns, 11), 1.45 * len(rows) + 0.5, title)
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for line, (name, best, worst) in zip(axes, rows, strict=True):
        for axis in line:
            axis.set_axis_off()
        for axis, (content, score) in zip(line, [*best, *worst], strict=False):
            with Image.open(BytesIO(content)) as image:
                axis.imshow(image.convert("RGB"))
            axis.set_title(f"{score:.2f}", loc="center", fontsize=9)
        style = {"rotation": 90, "ha": "right", "va": "center", "transform": line[0].transAxes}
        line[0].text(-0.08, 0.5, name[:24], **style)
    save_figure(figure, path)
