"""Reports of evaluations: tables and JSON, and figures of a classifier."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np

from lambda_keras.applications.preprocessing import imagenet_classes
from lambda_keras.models.specs import IMAGENET_MEAN, IMAGENET_STD
from zoo import files
from zoo.errors import needs_extra, printable
from zoo.evaluate.calibration import Scores
from zoo.evaluate.metrics import Evaluation
from zoo.files import remove
from zoo.plots.classification import (
    confusions,
    plot_confusion,
    plot_predictions,
    plot_reliability,
    plot_selection,
)
from zoo.run_folder import finite

with needs_extra("train"):
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

RESULTS = "evaluation.json"
CONFUSIONS, MISTAKES, RELIABILITY = "confusion.png", "mistakes.png", "reliability.png"
SELECTION, CALIBRATION = "thresholds.png", "calibration.png"
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
    """Creates a table of names and numbers; floats have a format, undefined ones are "-"."""
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
    """Yields a temporary folder, whose files replace those in `folder`, and `old` ones there."""
    with files.atomic_files(folder) as beside:
        yield beside
        for name in old:
            remove(folder / name)
    print(f"wrote {printable(folder / RESULTS)} and figures")


def print_tables(result: Evaluation, title: str) -> None:
    """Prints metrics over all images, and of every class, or of the worst ones."""
    figures = Table("", Column("", justify="right"), show_header=False)
    for key, (name, style) in FIGURES.items():
        if getattr(result, key) is not None:
            figures.add_row(name, format(getattr(result, key), style))
    rows, head = result.rows(readable(result.names)), "Classes"
    if len(rows) > WORST:
        head = f"The {WORST} of {len(rows)} classes with the lowest F1"
        rows = worst_first(rows, "f1")[:WORST]
    heads = ("class", "precision", "recall", "F1", "images")
    by_class = table(heads, (tuple(row.values()) for row in rows), ".4f")
    show(title, figures, *_thresholds(result.scores, ""), head, by_class)
    if (found := result.calibration) is not None:
        head = (
            f"Temperature {found.temperature:.4f}, fitted to a half of {found.images_fitted:,} "
            f"images with {found.errors_fitted:,} errors"
        ) + ": none can be fitted without errors" * (not found.errors_fitted)
        both = (found.before, found.after)
        rows = [
            ("cross-entropy loss", *(one.loss for one in both)),
            ("calibration error", *(one.calibration_error for one in both)),
        ]
        half = table(("on the other half", "before", "after"), rows, ".4f")
        of = " with this temperature, on the other half"
        show(head, half, *_thresholds(found.after, of))


def _thresholds(scores: Scores, of: str) -> tuple[str, Table]:
    heads = ("precision", "threshold", "images kept", "their precision")
    rows = ((f"{row.pop('target'):.0%}", *row.values()) for row in scores.thresholds())
    return f"Thresholds of the score{of}", table(heads, rows, ".4f")


def write(result: Evaluation, title: str, settings: dict[str, Any], folder: Path) -> None:
    """Writes all metrics as JSON, and figures of confusions, errors and reliability."""
    with writing(folder, old=(MISTAKES, CALIBRATION)) as beside:
        _write(result, title, settings, beside)


def _write(result: Evaluation, title: str, settings: dict[str, Any], folder: Path) -> None:
    words, error = readable(result.names), result.calibration_error
    accuracy = f"{title}: top-1 accuracy {result.top1:.4f} ({result.images:,} images)"
    plot_confusion(result.confusion, words, accuracy, folder / CONFUSIONS)
    reliability = f"{title}: calibration error {error:.4f}"
    plot_reliability(result.scores.reliability, reliability, folder / RELIABILITY)
    curves = {"": result.scores.selection}
    if (found := result.calibration) is not None:
        before, after = found.before, found.after
        curves = {"before": before.selection, "after calibration": after.selection}
        errors = f"{before.calibration_error:.4f}, {after.calibration_error:.4f}"
        plot_reliability(
            after.reliability,
            f"{title}: calibration error {errors} with temperature {found.temperature:.3f}",
            folder / CALIBRATION,
            before.reliability,
        )
    plot_selection(curves, f"{title}: images that a threshold keeps", folder / SELECTION)
    if result.mistakes:
        images, labels, probabilities = map(np.stack, zip(*result.mistakes, strict=True))
        wrong = np.count_nonzero(result.labels != result.predicted)
        heading = f"{title}: the most confident of {wrong} errors"
        images = _pixels(images)
        plot_predictions(images, labels, probabilities, words, heading, folder / MISTAKES)
    pairs = [
        {"true": result.names[true], "predicted": result.names[predicted], "images": count}
        for true, predicted, count in confusions(result.confusion)
    ]
    figures = {key: getattr(result, key) for key in FIGURES}
    results = {
        "backend": keras.config.backend(),
        **figures,
        "thresholds": result.scores.thresholds(),
        "calibration": found and found.as_json(),
        "classes": result.rows(result.names),
        "confusions": pairs,
    }
    write_json(folder, settings, results)


def _pixels(images: np.ndarray) -> np.ndarray:
    """Inverts `preprocess_input`: pixels in [0, 255]."""
    return 255 * (images * np.array(IMAGENET_STD, "f4") + np.array(IMAGENET_MEAN, "f4"))
