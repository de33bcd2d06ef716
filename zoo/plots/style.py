"""Common style of figures: colors, sizes, files."""

from pathlib import Path
from typing import Any

import numpy as np

from zoo.errors import needs_extra
from zoo.files import atomic_write

with needs_extra("train"):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

TRAIN, TEST, WRONG = "#8a93a6", "#1f5fbf", "#c62828"
INK, PALE = "#222831", "#e3e6ec"


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure of a size in inches."""
    # A Figure of its own, not pyplot: no global state, no display, safe in threads.
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a PNG file, whole or not at all."""
    with atomic_write(path) as beside:
        figure.savefig(beside, dpi=130)


def to_pixels(figure: Figure, dpi: int) -> np.ndarray:
    """Returns a figure as an RGB image."""
    figure.set_dpi(dpi)
    canvas: Any = figure.canvas
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
