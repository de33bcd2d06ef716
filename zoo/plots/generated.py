"""Figure of generated images beside real ones."""

from pathlib import Path

import numpy as np

from zoo.plots.style import INK, new_figure, save_figure


def plot_generated(generated: np.ndarray, real: np.ndarray, title: str, path: Path) -> None:
    """Draws two image grids side by side, with as many columns as rows or a few more.

    Both are gray images `(count, height, width)` in [0, 1], drawn dark on white.
    """
    panels = {"Generated": generated, "Real, held out": real}
    columns = int(np.ceil(np.sqrt(len(generated))))
    rows = -(-len(generated) // columns)
    figure = new_figure(2 * (0.5 * columns + 0.2), 0.5 * rows + 0.8, title)
    for axis, (head, images) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        axis.imshow(mosaic(images, columns), cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(head, loc="left", fontsize=10.5, color=INK)
        axis.set_axis_off()
    save_figure(figure, path)


def mosaic(images: np.ndarray, columns: int) -> np.ndarray:
    """Joins images `(count, height, width)` into one, with empty pixels around each."""
    rows = -(-len(images) // columns)
    missing = rows * columns - len(images)
    padded = np.pad(images, [(0, missing), (1, 1), (1, 1)])
    _, height, width = padded.shape
    tiles = padded.reshape(rows, columns, height, width).swapaxes(1, 2)
    return tiles.reshape(rows * height, columns * width)
