"""Errors by corruption and severity as a figure."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zoo.plots.style import TEST, WRONG, new_figure, save_figure, styled


@styled
def plot_corruptions(
    names: Sequence[str], errors: np.ndarray, alexnet: Sequence[float], title: str, path: Path
) -> None:
    """Draws top-1 errors by corruption and severity next to AlexNet's means, into a PNG file.

    Errors are from 0 to 1, of shape `(corruptions, severities)`, the lowest severity first.
    """
    figure = new_figure(8, 0.34 * len(names) + 1.6, title)
    axis, rows = figure.subplots(), np.arange(len(names))
    axis.barh(rows, 100 * errors.mean(1), color=TEST, alpha=0.35, height=0.6, label="mean")
    last = errors.shape[1] - 1
    for severity, column in enumerate(errors.T):
        label = f"severities 1 to {last + 1}" if severity == last else None
        axis.scatter(100 * column, rows, 8 + 10 * severity, TEST, label=label, zorder=3)
    means = 100 * np.asarray(alexnet)
    axis.scatter(means, rows, 60, WRONG, marker="|", label="AlexNet, mean", zorder=4)
    axis.set_yticks(rows, names)
    axis.invert_yaxis()
    axis.set(xlabel="Top-1 error (%)", xlim=(0, 101))
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    axis.grid(axis="x")
    save_figure(figure, path)
