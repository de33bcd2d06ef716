"""Pictures of a run."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from zoo.errors import needs_extra
from zoo.files import atomic_write

with needs_extra("train"):
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

TRAIN, TEST, WRONG = "#8a93a6", "#1f5fbf", "#c62828"
INK, PALE = "#222831", "#e3e6ec"
MAX_CELLS = 20  # classes whose names and counts can be read side by side
MAX_PAIRS = 25  # of classes, where there are more


def plot_curves(history: dict[str, list[float]], title: str, path: Path) -> None:
    """Draws loss and accuracy over the epochs, for training and test images.

    Args:
        history: `keras.callbacks.History.history` with `loss`, `val_loss`, `accuracy` and
            `val_accuracy`.
        title: Head line.
        path: PNG file to write.
    """
    figure = new_figure(10, 4.2)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
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
    """Draws test images with their predicted and true classes; mistakes come first, in red.

    Args:
        images: Images in [0, 255], shape `(count, height, width, 3)`.
        labels: Indices of the true classes, shape `(count,)`.
        probabilities: Predictions, shape `(count, classes)`.
        class_names: Names of the classes.
        title: Head line.
        path: PNG file to write.
        columns: Images per row. Defaults to 8.
        rows: Rows; at most half of all images are mistakes. Defaults to 4.
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
        guess, label = int(predicted[i]), int(labels[i])
        _tile(
            axis,
            images[i],
            f"{class_names[guess]}  {100 * probabilities[i, guess]:.0f} %",
            f"true: {class_names[label]}",
            wrong=guess != label,
        )
    save_figure(figure, path)


def confusions(confusion: np.ndarray) -> list[tuple[int, int, int]]:
    """Returns the mistakes as (true class, predicted class, number of images), most first."""
    mistakes = confusion * ~np.eye(len(confusion), dtype=bool)
    true, predicted = np.nonzero(mistakes)
    counts = mistakes[true, predicted]
    order = np.argsort(-counts, kind="stable")
    return list(
        zip(true[order].tolist(), predicted[order].tolist(), counts[order].tolist(), strict=True)
    )


def plot_confusion(
    confusion: np.ndarray, class_names: Sequence[str], title: str, path: Path
) -> None:
    """Draws what is taken for what: all counts, or of many classes the most frequent mistakes.

    Args:
        confusion: Number of images by true class (row) and predicted class (column).
        class_names: Names of the classes.
        title: Head line.
        path: PNG file to write.
    """
    names = [name if len(name) <= 24 else f"{name[:23]}…" for name in class_names]
    if len(names) <= MAX_CELLS:
        side = 0.46 * len(names) + 2.6
        figure = new_figure(max(side, 7.5), side)
        _draw_cells(figure.subplots(), confusion, names)
    else:
        pairs = confusions(confusion)[:MAX_PAIRS]
        figure = new_figure(9, 0.3 * len(pairs) + 1.5)
        _draw_pairs(figure.subplots(), confusion, names, pairs)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK, wrap=True)
    save_figure(figure, path)


def _draw_cells(axis: Axes, confusion: np.ndarray, names: Sequence[str]) -> None:
    share = confusion / np.maximum(confusion.sum(1, keepdims=True), 1)
    right = np.eye(len(names), dtype=bool)
    for cells, color in ((right, TEST), (~right, WRONG)):
        shades = LinearSegmentedColormap.from_list("", ["white", color])
        # The root shows rare mistakes, too.
        axis.imshow(np.ma.array(share, mask=~cells), shades, norm=PowerNorm(0.5, 0, 1))
    for (row, column), count in np.ndenumerate(confusion):
        if count:
            color = "white" if share[row, column] > 0.3 else INK
            text = f"{count}" if count < 10_000 else f"{count / 1000:.0f}k"
            axis.text(column, row, text, ha="center", va="center", fontsize=8.5, color=color)
    places, tilt = range(len(names)), 0 if max(map(len, names)) <= 5 else 90
    axis.set_xticks(places, names, rotation=tilt, parse_math=False)
    axis.set_yticks(places, names, parse_math=False)
    axis.set_xlabel("Predicted class", color=INK)
    axis.set_ylabel("True class", color=INK)
    axis.set_xticks(np.arange(len(names) - 1) + 0.5, minor=True)
    axis.set_yticks(np.arange(len(names) - 1) + 0.5, minor=True)
    axis.grid(which="minor", color=PALE, lw=0.8)
    axis.tick_params(which="both", length=0)
    axis.tick_params(colors=INK)
    axis.spines[:].set_color(PALE)


def _draw_pairs(
    axis: Axes,
    confusion: np.ndarray,
    names: Sequence[str],
    pairs: Sequence[tuple[int, int, int]],
) -> None:
    axis.set_title(
        "Most frequent mistakes" if pairs else "No mistakes", loc="left", fontsize=10.5, color=INK
    )
    if not pairs:
        axis.set_axis_off()
        return
    images_of = confusion.sum(1)
    axis.barh(range(len(pairs)), [count for _, _, count in pairs], color=WRONG, height=0.6)
    style = {"textcoords": "offset points", "va": "center", "fontsize": 9, "color": INK}
    for row, (true, _, count) in enumerate(pairs):
        axis.annotate(f"{count}  {count / images_of[true]:.0%}", (count, row), (4, 0), **style)
    labels = [f"{names[true]} → {names[predicted]}" for true, predicted, _ in pairs]
    axis.set_yticks(range(len(pairs)), labels, fontsize=9.5, parse_math=False)
    axis.set_ylabel("True class → predicted class", color=INK)
    axis.set_xlabel("Images, and their part of the true class", color=INK)
    axis.invert_yaxis()
    axis.margins(x=0.12, y=0.01)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(colors=INK)


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure of a size in inches."""
    # A Figure of its own, not pyplot: no global state, no display, safe in threads.
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _curve(axis: Axes, train: ArrayLike, test: ArrayLike, title: str) -> None:
    epochs = np.arange(1, np.size(train) + 1)
    marker = "o" if len(epochs) < 10 else None
    axis.plot(epochs, train, color=TRAIN, marker=marker, lw=1.8, ms=4, label="training images")
    axis.plot(epochs, test, color=TEST, marker=marker, lw=2.2, ms=4, label="test images")
    axis.set_title(title, loc="left", fontsize=10.5, color=INK)
    axis.set_xlabel("Epoch", color=INK)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(color=PALE, lw=0.8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(colors=INK)


def _tile(axis: Axes, image: np.ndarray, head: str, foot: str, wrong: bool) -> None:
    color = WRONG if wrong else INK
    axis.set_axis_on()
    axis.imshow(np.clip(image, 0, 255).astype("uint8"))
    axis.set(xticks=[], yticks=[])
    axis.set_title(head, fontsize=9.5, color=color, fontweight="bold" if wrong else "normal", pad=3)
    axis.set_xlabel(foot, fontsize=8.5, color=color, labelpad=2)
    for spine in axis.spines.values():
        spine.set(color=color if wrong else PALE, linewidth=2.5 if wrong else 1)


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a PNG file, whole or not at all."""
    with atomic_write(path) as beside:
        figure.savefig(beside, dpi=130)
