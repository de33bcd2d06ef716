"""Figures on the page of `zoo.demo`."""

from collections.abc import Mapping

import numpy as np

from zoo.errors import needs_extra
from zoo.plots.style import INK, TEST, WRONG, Axes, bare_axis, new_figure, to_pixels

with needs_extra("train"):
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import MaxNLocator

VIEW = 480  # height and width of the image that users click on, in pixels


def draw_position(view: np.ndarray, grid: tuple[int, int], row: int, column: int) -> np.ndarray:
    """Draws an RGB image at `VIEW` by `VIEW` pixels, with a frame around a position of a grid."""
    axis = bare_axis(VIEW / 100, VIEW / 100)
    _show(axis, view / 255, grid)
    _frame(axis, row, column)
    return to_pixels(axis.figure, 100)


def draw_maps(
    view: np.ndarray, maps: Mapping[str, np.ndarray], row: int, column: int
) -> np.ndarray:
    """Draws maps of signed weights side by side over a pale image, with a frame around a position.

    The image is RGB in [0, 255], maps are `(height, width)` by their titles, and row and column
    are those of the query.
    """
    colors = LinearSegmentedColormap.from_list("signed", [TEST, "white", WRONG])
    figure = new_figure(4.7 * len(maps), 5.6)
    for axis, (head, weights) in zip(
        figure.subplots(1, len(maps), squeeze=False).flat, maps.items(), strict=True
    ):
        largest = np.abs(weights).max() or 1.0
        norm = Normalize(-largest, largest)
        rows, columns = (
            np.arange(pixels) * cells // pixels
            for pixels, cells in zip(view.shape[:2], weights.shape, strict=True)
        )
        # The product of color and brightness is gray where a weight is 0.
        brightness = 0.6 + 0.4 * view.mean(-1, keepdims=True) / 255
        _show(axis, colors(norm(weights))[rows][:, columns, :3] * brightness, weights.shape)
        _frame(axis, row, column)
        axis.set_title(head, loc="left", fontsize=12, color=INK)
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
        bar = figure.colorbar(
            ScalarMappable(norm, colors), ax=axis, location="bottom", aspect=30, pad=0.02
        )
        bar.locator = MaxNLocator(5)
        bar.set_label("weight of the value at a place", color=INK)
        bar.ax.tick_params(colors=INK)
        bar.outline.set_visible(False)
    return to_pixels(figure, 130)


def _show(axis: Axes, image: np.ndarray, grid: tuple[int, ...]) -> None:
    # Coordinates are rows and columns of the grid: integers at the centers of its cells.
    edges = (-0.5, grid[1] - 0.5, grid[0] - 0.5, -0.5)
    aspect = image.shape[0] / grid[0] / (image.shape[1] / grid[1])
    axis.imshow(np.clip(image, 0, 1), extent=edges, aspect=aspect, interpolation="nearest")


def _frame(axis: Axes, row: int, column: int) -> None:
    for width, color in ((4, "white"), (1.8, "black")):  # visible on any image
        axis.add_patch(
            Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, lw=width, ec=color, zorder=3)
        )
