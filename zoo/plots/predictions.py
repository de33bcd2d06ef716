"""Images with their predictions."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zoo.plots.style import INK, PALE, WRONG, Axes, image_grid, save_figure


def plot_predictions(
    images: np.ndarray,
    labels: np.ndarray,
    probabilities: np.ndarray,
    class_names: Sequence[str],
    title: str,
    path: Path,
    columns: int = 8,
    rows: int = 4,
) -> None:
    """Draws test images with their predicted and true classes into a PNG file.

    Errors come first, in red; they are at most half of the images, if there are enough others.

    Args:
        images: Images in [0, 255], shape `(count, height, width, 3)`.
        labels: Indices of the true classes, shape `(count,)`.
        probabilities: Predictions, shape `(count, classes)`.
        class_names: Names of the classes.
        title: Title of the figure.
        path: File to write.
        columns: Images in a row. Defaults to 8.
        rows: Rows at most. Defaults to 4.
    """
    predicted = probabilities.argmax(-1)
    wrong, right = np.flatnonzero(predicted != labels), np.flatnonzero(predicted == labels)
    room = min(rows * columns, len(images))
    mistakes = wrong[: max(room // 2, room - len(right))]
    shown = [*mistakes, *right[: room - len(mistakes)]]
    figure, axes = image_grid(len(shown), columns, 1.45, 1.78, title)
    for axis, i in zip(axes, shown, strict=True):
        choice, label = int(predicted[i]), int(labels[i])
        _tile(
            axis,
            images[i],
            f"{class_names[choice]}  {100 * probabilities[i, choice]:.0f} %",
            f"true: {class_names[label]}",
            wrong=choice != label,
        )
    save_figure(figure, path)


def _tile(axis: Axes, image: np.ndarray, head: str, foot: str, wrong: bool) -> None:
    color = WRONG if wrong else INK
    axis.set_axis_on()
    axis.imshow(np.clip(image, 0, 255).astype("uint8"))
    axis.set(xticks=[], yticks=[])
    axis.set_title(head, fontsize=9.5, color=color, fontweight="bold" if wrong else "normal", pad=3)
    axis.set_xlabel(foot, fontsize=8.5, color=color, labelpad=2)
    for spine in axis.spines.values():
        spine.set(color=color if wrong else PALE, linewidth=2.5 if wrong else 1)
