"""Images with what a network says about them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zoo.errors import needs_extra

with needs_extra("train"):
    from matplotlib.axes import Axes

from zoo.plots.style import INK, PALE, WRONG, new_figure, save_figure


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

    Mistakes come first, in red; they are at most half of the images, if there are enough others.

    Args:
        images: Images in [0, 255], shape `(count, height, width, 3)`.
        labels: Indices of the true classes, shape `(count,)`.
        probabilities: Predictions, shape `(count, classes)`.
        class_names, title, path, columns, rows: Of the picture.
    """
    predicted = probabilities.argmax(-1)
    wrong, right = np.flatnonzero(predicted != labels), np.flatnonzero(predicted == labels)
    room = min(rows * columns, len(images))
    mistakes = wrong[: max(room // 2, room - len(right))]
    shown = [*mistakes, *right[: room - len(mistakes)]]

    rows = -(-len(shown) // columns)
    figure = new_figure(1.45 * columns, 1.78 * rows + 0.5)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axis in axes:
        axis.set_axis_off()
    for axis, i in zip(axes, shown, strict=False):
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
