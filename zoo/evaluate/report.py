"""Reports of a classifier's evaluation: tables, JSON and figures."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from lambda_keras.applications.preprocessing import imagenet_classes
from lambda_keras.models.specs import IMAGENET_MEAN, IMAGENET_STD
from zoo.errors import needs_extra, printable
from zoo.evaluate.metrics import Evaluation
from zoo.files import atomic_write, remove
from zoo.plots.confusion import confusions, plot_confusion
from zoo.plots.predictions import plot_predictions
from zoo.plots.reliability import plot_reliability

with needs_extra("train"):
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

RESULTS = "evaluation.json"
CONFUSIONS, MISTAKES, RELIABILITY = "confusion.png", "mistakes.png", "reliability.png"
WORST = 20  # rows of the printed table of classes


def readable(class_names: Sequence[str]) -> list[str]:
    """Returns class names, with words in place of ImageNet's WordNet ids."""
    words = dict(imagenet_classes())
    often = Counter(words.values())  # crane is a bird and a machine

    def name(number: str) -> str:
        word = words.get(number, number)
        return (f"{word} {number}" if often[word] > 1 else word).replace("_", " ")

    return [name(number) if number in words else number for number in class_names]


def print_tables(result: Evaluation, names: Sequence[str], title: str) -> None:
    """Prints overall metrics, and those of every class, or of the worst ones."""
    table = Table("", Column("", justify="right"), show_header=False)
    table.add_row("top-1 accuracy", f"{result.top1:.4f}")
    if result.top5 is not None:
        table.add_row("top-5 accuracy", f"{result.top5:.4f}")
    table.add_row("macro F1", f"{result.macro_f1:.4f}")
    table.add_row("cross-entropy loss", f"{result.loss:.4f}")
    table.add_row("calibration error", f"{result.calibration_error:.4f}")
    table.add_row("images", f"{len(result.labels):,}")
    if result.images_per_second is not None:
        table.add_row("images/s", f"{result.images_per_second:,.0f}")
    console = Console()
    console.print(f"\n{title}", table, *_class_table(result, names), sep="\n", highlight=False)


def _class_table(result: Evaluation, names: Sequence[str]) -> tuple[str, Table]:
    shown = np.arange(len(names))
    title = "Classes"
    if len(names) > WORST:
        f1 = result.by_class[2]
        shown = np.argsort(f1, kind="stable")[:WORST]  # NaN (no images) comes last
        title = f"The {WORST} of {len(names)} classes with the lowest F1"
    figures = ("precision", "recall", "F1", "images")
    table = Table("class", *(Column(name, justify="right") for name in figures))
    for number in shown.tolist():
        *parts, count = (column[number] for column in result.by_class)
        cells = ("-" if np.isnan(part) else f"{part:.4f}" for part in parts)
        table.add_row(Text(printable(names[number])), *cells, f"{count:,}")
    return title, table


def write(
    result: Evaluation, names: Sequence[str], title: str, settings: dict[str, Any], folder: Path
) -> None:
    """Writes all metrics as JSON, and figures of confusions, errors and reliability.

    The JSON includes the settings of the command; `title` is the title of the figures.
    """
    figures = {
        "settings": settings,
        "backend": keras.config.backend(),
        "top1": result.top1,
        "top5": result.top5,
        "macro_f1": result.macro_f1,
        "loss": result.loss,
        "calibration_error": result.calibration_error,
        "images": len(result.labels),
        "images_per_second": result.images_per_second,
        "classes": [
            {
                "name": name,
                **dict(zip(("precision", "recall", "f1"), map(_or_none, parts), strict=True)),
                "images": int(count),
            }
            for name, *parts, count in zip(names, *result.by_class, strict=True)
        ],
        "confusions": [
            {"true": names[true], "predicted": names[predicted], "images": count}
            for true, predicted, count in confusions(result.confusion)
        ],
    }
    with atomic_write(folder / RESULTS) as path:
        path.write_text(
            json.dumps(figures, indent=1, allow_nan=False, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )
    heading = f"{title}: top-1 accuracy {result.top1:.4f} ({len(result.labels):,} images)"
    words = readable(names)
    plot_confusion(result.confusion, words, heading, folder / CONFUSIONS)
    plot_reliability(
        *result.reliability,
        f"{title}: calibration error {result.calibration_error:.4f}",
        folder / RELIABILITY,
    )
    remove(folder / MISTAKES)  # left by an earlier evaluation
    if result.mistakes:
        images, labels, probabilities = (
            np.stack([getattr(one, name) for one in result.mistakes])
            for name in ("image", "label", "probabilities")
        )
        wrong = np.count_nonzero(result.labels != result.predicted)
        plot_predictions(
            _pixels(images),
            labels,
            probabilities,
            words,
            f"{title}: the most confident of {wrong} errors",
            folder / MISTAKES,
        )


def _pixels(images: np.ndarray) -> np.ndarray:
    """Inverts `preprocess_input`: pixels in [0, 255]."""
    return 255 * (images * np.array(IMAGENET_STD, "f4") + np.array(IMAGENET_MEAN, "f4"))


def _or_none(figure: float) -> float | None:
    return None if np.isnan(figure) else float(figure)
