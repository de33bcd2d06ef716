"""Reliability diagram: accuracy by confidence."""

from pathlib import Path

import numpy as np

from zoo.plots.style import INK, PALE, TEST, TRAIN, new_figure, open_frame, save_figure


def plot_reliability(
    count: np.ndarray, confidence: np.ndarray, accuracy: np.ndarray, title: str, path: Path
) -> None:
    """Draws accuracy and number of images by confidence into a PNG file.

    Args:
        count: Images in bins of equal width, of confidence from 0 to 1.
        confidence: Mean confidence of each bin; any value in empty bins.
        accuracy: Accuracy of each bin; any value in empty bins.
        title: Title of the figure.
        path: File to write.
    """
    width = 1 / len(count)
    left, some = width * np.arange(len(count)), count > 0
    figure = new_figure(6, 6.5, title)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=(3, 1))
    upper.plot([0, 1], [0, 1], color=TRAIN, lw=1, ls="--", label="perfect calibration")
    upper.bar(left[some], accuracy[some], width, align="edge", color=TEST, alpha=0.35)
    upper.plot(confidence[some], accuracy[some], "o-", color=TEST, label="accuracy")
    upper.set_ylabel("Accuracy", color=INK)
    upper.set(xlim=(0, 1), ylim=(0, 1.02))
    upper.legend(frameon=False, loc="upper left")
    lower.bar(left, count, width, align="edge", color=TRAIN)
    lower.set_ylabel("Images", color=INK)
    lower.set_xlabel("Confidence: probability of the predicted class", color=INK)
    for axis in (upper, lower):
        open_frame(axis)
        axis.grid(axis="y", color=PALE, lw=0.8)
        axis.set_axisbelow(True)
    save_figure(figure, path)
