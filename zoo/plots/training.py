"""Training curves."""

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from zoo.errors import needs_extra

with needs_extra("train"):
    from matplotlib.ticker import MaxNLocator

from zoo.plots.style import INK, PALE, TEST, TRAIN, Axes, new_figure, open_frame, save_figure


def plot_curves(history: dict[str, list[float]], title: str, path: Path) -> None:
    """Draws loss and accuracy of training and test images by epoch into a PNG file.

    Args:
        history: Lists of `loss`, `val_loss`, `accuracy` and `val_accuracy`, as
            `keras.callbacks.History` has them.
        title: Title of the figure.
        path: File to write.
    """
    figure = new_figure(10, 4.2, title)
    loss, accuracy = figure.subplots(1, 2)
    _curve(loss, history["loss"], history["val_loss"], "Loss (label smoothing included)")
    loss.set_ylim(bottom=0)
    percent = {k: 100 * np.asarray(history[k]) for k in ("accuracy", "val_accuracy")}
    _curve(accuracy, percent["accuracy"], percent["val_accuracy"], "Top-1 accuracy (%)")
    accuracy.set_ylim(top=100.5)
    last = percent["val_accuracy"][-1]
    accuracy.annotate(
        f"{last:.2f}",
        (len(percent["val_accuracy"]), last),
        xytext=(6, -3),
        textcoords="offset points",
        color=TEST,
        fontweight="bold",
        annotation_clip=False,
    )
    loss.legend(frameon=False, labelcolor=INK)
    save_figure(figure, path)


def _curve(axis: Axes, train: ArrayLike, test: ArrayLike, title: str) -> None:
    epochs = np.arange(1, np.size(train) + 1)
    marker = "o" if len(epochs) < 10 else None
    axis.plot(epochs, train, color=TRAIN, marker=marker, lw=1.8, ms=4, label="training images")
    axis.plot(epochs, test, color=TEST, marker=marker, lw=2.2, ms=4, label="test images")
    axis.set_title(title, loc="left", fontsize=10.5, color=INK)
    axis.set_xlabel("Epoch", color=INK)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(color=PALE, lw=0.8)
    open_frame(axis)
