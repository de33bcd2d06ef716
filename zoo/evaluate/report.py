"""Reports of evaluations: tables and JSON, and figures of a classifier."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from lambda_keras.applications.preprocessing import imagenet_classes
from lambda_keras.models.specs import IMAGENET_MEAN, IMAGENET_STD
from zoo import files
from zoo.errors import needs_extra, printable
from zoo.evaluate.extension import Addition
from zoo.evaluate.metrics import Evaluation
from zoo.evaluate.scores import Scores
from zoo.files import remove
from zoo.plots.classification import (
    confusions,
    plot_confusion,
    plot_predictions,
    plot_selection,
)
from zoo.run_folder import finite

with needs_extra("train"):
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

RESULTS = "evaluation.json"
CONFUSIONS, MISTAKES, SELECTION = "confusion.png", "mistakes.png", "thresholds.png"
WORST = 20  # rows of the printed table of classes
# Names of metrics in the printed table, and their formats.
FIGURES = {
    "top1": ("top-1 accuracy", ".4f"),
    "top5": ("top-5 accuracy", ".4f"),
    "macro_f1": ("macro F1", ".4f"),
    "loss": ("cross-entropy loss", ".4f"),
    "calibration_error": ("calibration error", ".4f"),
    "images": ("images", ",d"),
    "images_per_second": ("images/s", ",.0f"),
    "waiting": ("of the time, waiting for images", ".0%"),
}


def readable(class_names: Sequence[str]) -> list[str]:
    """Returns class names, with words in place of ImageNet's WordNet ids."""
    words = dict(imagenet_classes())
    often = Counter(words.values())
    for number, word in words.items():
        if often[word] > 1:  # crane is a bird and a machine
            words[number] = f"{word} {number}"
    return [words[name].replace("_", " ") if name in words else name for name in class_names]


def show(*parts: str | Table) -> None:
    """Prints titles and tables."""
    Console().print("", *parts, sep="\n", highlight=False)


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], style: str) -> Table:
    """Creates a table of names and numbers; `style` formats floats, "-" are undefined numbers."""
    made = Table(heads[0], *(Column(head, justify="right") for head in heads[1:]))
    for name, *cells in rows:
        made.add_row(Text(printable(name)), *(_cell(cell, style) for cell in cells))
    return made


def _cell(value: Any, style: str) -> str:
    if value is None or value != value:
        return "-"
    return format(value, style if isinstance(value, float) else ",d")


def worst_first(rows: Iterable[Mapping[str, Any]], key: str) -> list[Mapping[str, Any]]:
    """Sorts rows by a metric; undefined ones come last."""
    return sorted(rows, key=lambda row: math.inf if _cell(row[key], "") == "-" else row[key])


def write_json(folder: Path, settings: Mapping[str, Any], results: Mapping[str, Any]) -> None:
    """Writes `RESULTS`: the settings of the command and results, with None for NaN."""
    content = finite({"settings": settings, **results})
    files.write_json(folder / RESULTS, content, indent=1)


@contextmanager
def writing(folder: Path, old: Sequence[str] = ()) -> Iterator[Path]:
    """Yields a temporary folder; moves its files into `folder`, and removes `old` ones there."""
    with files.atomic_files(folder) as temporary:
        yield temporary
        for name in old:
            remove(folder / name)
    print(f"wrote {printable(folder / RESULTS)} and figures")


@dataclass(frozen=True)
class ClassifierReport:
    """Metrics of a classifier, overall and by class, with those that extensions add."""

    result: Evaluation
    additions: Mapping[str, Addition]

    def print_tables(self, title: str) -> None:
        """Prints metrics over all images, and of every class, or of the worst ones."""
        result = self.result
        overall = Table("", Column("", justify="right"), show_header=False)
        for key, (name, style) in FIGURES.items():
            if getattr(result, key) is not None:
                overall.add_row(name, format(getattr(result, key), style))
        rows, head = result.rows(readable(result.names)), "Classes"
        if len(rows) > WORST:
            head = f"The {WORST} of {len(rows)} classes with the lowest F1"
            rows = worst_first(rows, "f1")[:WORST]
        heads = ("class", "precision", "recall", "F1", "images")
        by_class = table(heads, (tuple(row.values()) for row in rows), ".4f")
        show(title, overall, *threshold_table(result.scores), head, by_class)
        for addition in self.additions.values():
            addition.print_tables()

    def write(self, title: str, settings: Mapping[str, Any], folder: Path) -> None:
        """Writes all metrics as JSON, and figures of confusions, errors and thresholds."""
        added = (name for addition in self.additions.values() for name in addition.figures)
        with writing(folder, old=(MISTAKES, *added)) as temporary:
            self._draw(title, temporary)
            write_json(temporary, settings, self._as_json())

    def _draw(self, title: str, folder: Path) -> None:
        result, words = self.result, readable(self.result.names)
        accuracy = f"{title}: top-1 accuracy {result.top1:.4f} ({result.images:,} images)"
        plot_confusion(result.confusion, words, accuracy, folder / CONFUSIONS)
        curves = {"": result.scores.selection}
        plot_selection(curves, f"{title}: images that a threshold keeps", folder / SELECTION)
        if result.mistakes:
            images, labels, probabilities = map(np.stack, zip(*result.mistakes, strict=True))
            wrong = np.count_nonzero(result.labels != result.predicted)
            heading = f"{title}: the most confident of {wrong} errors"
            images = denormalized(images)
            plot_predictions(images, labels, probabilities, words, heading, folder / MISTAKES)
        for addition in self.additions.values():
            addition.draw(title, folder)

    def _as_json(self) -> dict[str, Any]:
        result = self.result
        pairs = [
            {"true": result.names[true], "predicted": result.names[predicted], "images": count}
            for true, predicted, count in confusions(result.confusion)
        ]
        return {
            "backend": keras.config.backend(),
            **{key: getattr(result, key) for key in FIGURES},
            "thresholds": result.scores.thresholds(),
            **{name: addition.as_json() for name, addition in self.additions.items()},
            "classes": result.rows(result.names),
            "confusions": pairs,
        }


def threshold_table(scores: Scores, suffix: str = "") -> tuple[str, Table]:
    """Creates the table of thresholds of the score, with its heading."""
    heads = ("precision", "threshold", "images kept", "their precision")
    rows = ((f"{row.pop('target'):.0%}", *row.values()) for row in scores.thresholds())
    return f"Thresholds of the score{suffix}", table(heads, rows, ".4f")


def denormalized(images: np.ndarray) -> np.ndarray:
    """Inverts `preprocess_input`: pixels in [0, 255]."""
    return 255 * (images * np.array(IMAGENET_STD, "f4") + np.array(IMAGENET_MEAN, "f4"))
