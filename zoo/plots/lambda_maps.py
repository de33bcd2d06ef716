"""Figures of lambda maps and attention maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.errors import needs_extra
from zoo.plots.style import TEST, WRONG, Axes, bare_axis, new_figure, save_figure, styled, to_pixels

with needs_extra("train"):
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import MaxNLocator

COLORS = LinearSegmentedColormap.from_list("signed", [TEST, "white", WRONG])
VIEW = 480  # height and width of the image that users click on, in pixels


def draw_position(view: np.ndarray, grid: tuple[int, int], row: int, column: int) -> np.ndarray:
    """Draws an RGB image at `VIEW` by `VIEW` pixels, with a frame around a position of a grid."""
    axis = bare_axis(VIEW / 100, VIEW / 100)
    _show(axis, view / 255, grid)
    _frame(axis, row, column)
    return to_pixels(axis.figure, 100)


@styled
def draw_maps(
    view: np.ndarray, maps: Mapping[str, np.ndarray], row: int, column: int
) -> np.ndarray:
    """Draws maps of signed weights side by side over a pale image, with a frame around a position.

    The image is RGB in [0, 255], maps are `(height, width)` by their titles, and row and column
    tell where the query is.
    """
    figure = new_figure(4.7 * len(maps), 5.6)
    for axis, (head, weights) in zip(
        figure.subplots(1, len(maps), squeeze=False).flat, maps.items(), strict=True
    ):
        norm = _signed(weights)
        _show_weights(axis, view, weights, norm)
        _frame(axis, row, column)
        axis.set_title(head, fontsize=12)
        bar = _color_bar(figure, norm, axis, 5, location="bottom", aspect=30)
        bar.set_label("weight of the value at a place")
    return to_pixels(figure, 130)


@dataclass(frozen=True)
class Row:
    """Plots of one layer, one for each query: maps over the image, or matrices."""

    title: str
    pictures: Sequence[np.ndarray]  # `(height, width)` of the grid, or `(k, v)`
    over_image: bool


@styled
def plot_rows(
    view: np.ndarray,
    queries: Sequence[tuple[int, int]],
    grid: tuple[int, int],
    rows: Sequence[Row],
    path: Path,
) -> None:
    """Draws an image with queries, `(row, column)` of a grid, and layers below, into a PNG file."""
    figure = new_figure(2.6 * len(queries), 2.95 * (1 + len(rows)))
    parts = figure.subfigures(1 + len(rows), 1, squeeze=False).flat
    inputs, *others = parts
    inputs.suptitle("Queries in the image", x=0.02, ha="left", fontsize=11)
    for axis, (row, column) in zip(
        inputs.subplots(1, len(queries), squeeze=False)[0], queries, strict=True
    ):
        _show(axis, view / 255, grid)
        _frame(axis, row, column)
        axis.set_title(f"row {row}, column {column}", loc="center", fontsize=9)
    for part, row in zip(others, rows, strict=True):
        part.suptitle(row.title, x=0.02, ha="left", fontsize=11)
        norm = _signed(np.stack(row.pictures))
        axes = part.subplots(1, len(queries), squeeze=False)[0]
        for axis, picture, query in zip(axes, row.pictures, queries, strict=True):
            if row.over_image:
                _show_weights(axis, view, picture, norm)
                _frame(axis, *query)
            else:
                axis.imshow(picture, COLORS, norm, interpolation="nearest")
                _no_ticks(axis)
        _color_bar(part, norm, axes, 4, aspect=18)
    save_figure(figure, path)


def _signed(weights: np.ndarray) -> Normalize:
    largest = np.abs(weights).max() or 1.0
    return Normalize(-largest, largest)


def _color_bar(figure: Any, norm: Normalize, axes: Any, ticks: int, **options: Any) -> Any:
    bar = figure.colorbar(ScalarMappable(norm, COLORS), ax=axes, pad=0.02, **options)
    bar.locator = MaxNLocator(ticks)
    bar.outline.set_visible(False)
    return bar


def _show_weights(axis: Axes, view: np.ndarray, weights: np.ndarray, norm: Normalize) -> None:
    rows, columns = (
        np.arange(pixels) * cells // pixels
        for pixels, cells in zip(view.shape[:2], weights.shape, strict=True)
    )
    # The product of color and brightness is gray where a weight is 0.
    brightness = 0.6 + 0.4 * view.mean(-1, keepdims=True) / 255
    _show(axis, COLORS(norm(weights))[rows][:, columns, :3] * brightness, weights.shape)


def _no_ticks(axis: Axes) -> None:
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)


def _show(axis: Axes, image: np.ndarray, grid: tuple[int, ...]) -> None:
    # Coordinates are rows and columns of the grid: integers at the centers of its cells.
    edges = (-0.5, grid[1] - 0.5, grid[0] - 0.5, -0.5)
    aspect = image.shape[0] / grid[0] / (image.shape[1] / grid[1])
    axis.imshow(np.clip(image, 0, 1), extent=edges, aspect=aspect, interpolation="nearest")
    _no_ticks(axis)


def _frame(axis: Axes, row: int, column: int) -> None:
    for width, color in ((4, "white"), (1.8, "black")):  # visible on any image
        axis.add_patch(
            Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, lw=width, ec=color, zorder=3)
        )
