"""Reliability diagrams."""

from pathlib import Path

import numpy as np

from zoo.plots.style import TEST, TRAIN, WRONG, new_figure, save_figure, styled

Bins = tuple[np.ndarray, np.ndarray, np.ndarray]  # images, mean confidence, accuracy


@styled
def plot_reliability(bins: Bins, title: str, path: Path, before: Bins | None = None) -> None:
    """Draws accuracy and number of images in bins of confidence, from 0 to 1, into a PNG file.

    `before` has the bins before calibration, drawn as a second line.
    """
    count, confidence, accuracy = bins
    edges, some = np.linspace(0, 1, len(count) + 1), count > 0
    figure = new_figure(6, 6.5, title)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=(3, 1))
    upper.plot([0, 1], [0, 1], color=TRAIN, lw=1, ls="--", label="perfect calibration")
    upper.bar(edges[:-1][some], accuracy[some], edges[1], align="edge", color=TEST, alpha=0.35)
    if before is not None:
        there = before[0] > 0
        upper.plot(before[1][there], before[2][there], "o-", color=WRONG, label="before")
        lower.stairs(before[0], edges, color=WRONG)
    label = "accuracy" if before is None else "accuracy, calibrated"
    upper.plot(confidence[some], accuracy[some], "o-", color=TEST, label=label)
    upper.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="Accuracy")
    upper.legend(frameon=before is not None, loc="upper left" if before is None else "best")
    lower.bar(edges[:-1], count, edges[1], align="edge", color=TRAIN)
    lower.set(ylabel="Images", xlabel="Confidence: probability of the predicted class")
    for axis in (upper, lower):
        axis.grid(axis="y")
    save_figure(figure, path)
