"""Common style of figures: colors, sizes, titles, files."""

from pathlib import Path
from typing import Any

import numpy as np

from zoo.errors import needs_extra
from zoo.files import atomic_write

with needs_extra("train"):
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

TRAIN, TEST, WRONG = "#8a93a6", "#1f5fbf", "#c62828"
INK, PALE = "#222831", "#e3e6ec"
# Decorator of functions that draw: settings of matplotlib while they run.
styled = rc_context(
    {
        "text.color": INK, "text.parse_math": False, "legend.frameon": False,
        "axes.labelcolor": INK, "axes.titlecolor": INK, "xtick.color": INK, "ytick.color": INK,
        "axes.titlelocation": "left", "axes.titlesize": 10.5, "axes.axisbelow": True,
        "axes.spines.top": False, "axes.spines.right": False,
        "grid.color": PALE, "grid.linewidth": 0.8,
    }
)  # fmt: skip


def new_figure(width: float, height: float, title: str = "") -> Figure:
    """Creates an empty figure of a size in inches, with a title at the left."""
    # Without pyplot, which keeps a list of open figures and may need a display.
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    if title:
        style = {"fontsize": 13, "fontweight": "bold", "color": INK, "wrap": True}
        figure.suptitle(title, x=0.01, ha="left", **style)
    return figure


def bare_axis(width: float, height: float) -> Axes:
    """Creates a figure of a size in inches that one image fills, and returns its axis."""
    figure = new_figure(width, height)
    figure.set_layout_engine("none")
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_axis_off()
    return axis


def image_grid(
    count: int, columns: int, width: float, height: float, title: str
) -> tuple[Figure, list[Axes]]:
    """Creates a figure with `count` empty axes for images, of a size in inches."""
    rows = -(-count // columns)
    figure = new_figure(width * columns, height * rows + 0.5, title)
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axis in axes:
        axis.set_axis_off()
    return figure, axes[:count]


def open_frame(axis: Axes) -> None:
    """Removes the upper and the right side of the frame around a plot."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(colors=INK)


def shortened(names: Any) -> list[str]:
    """Cuts names of classes at 24 characters."""
    return [name if len(name) <= 24 else f"{name[:23]}…" for name in names]


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a PNG file, whole or not at all."""
    with atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=130)


def to_pixels(figure: Any, dpi: int) -> np.ndarray:
    """Returns a figure as an RGB image."""
    figure.set_dpi(dpi)
    canvas: Any = figure.canvas
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
