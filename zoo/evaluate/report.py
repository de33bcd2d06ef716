"""What is printed and written about an evaluation: tables, JSON, a picture."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from lambda_keras.applications.preprocessing import imagenet_classes
from zoo.errors import needs_extra, printable
from zoo.evaluate.metrics import Evaluation
from zoo.files import atomic_write
from zoo.plots.confusion import confusions, plot_confusion

with needs_extra("train"):
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

RESULTS, PICTURE = "evaluation.json", "confusion.png"
WORST = 20  # rows of the printed table of classes


def readable(class_names: Sequence[str]) -> list[str]:
    """Returns the names of classes; words, where they are numbers of ImageNet's."""
    words = dict(imagenet_classes())
    often = Counter(words.values())  # such as crane, the bird and the machine

    def name(number: str) -> str:
        word = words.get(number, number)
        return (f"{word} {number}" if often[word] > 1 else word).replace("_", " ")

    return [name(number) if number in words else number for number in class_names]


def print_tables(result: Evaluation, names: Sequence[str], title: str) -> None:
    """Prints the figures as a whole, and those of each class, or of the worst."""
    table = Table("", Column("", justify="right"), show_header=False)
    table.add_row("top-1 accuracy", f"{result.top1:.4f}")
    if result.top5 is not None:
        table.add_row("top-5 accuracy", f"{result.top5:.4f}")
    table.add_row("cross-entropy loss", f"{result.loss:.4f}")
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
        shown = np.argsort(f1, kind="stable")[:WORST]  # NaN, classes without images, comes last
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
    """Writes all figures as JSON, and the picture of what is taken for what.

    The JSON has the settings of the command, too; the title is that of the picture.
    """
    figures = {
        "settings": settings,
        "backend": keras.config.backend(),
        "top1": result.top1,
        "top5": result.top5,
        "loss": result.loss,
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
    plot_confusion(result.confusion, readable(names), heading, folder / PICTURE)


def _or_none(figure: float) -> float | None:
    return None if np.isnan(figure) else float(figure)
