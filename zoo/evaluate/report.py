"""Reports of evaluations: tables and JSON, and figures of a classifier."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from lambda_keras.applications.preprocessing import imagenet_classes
from lambda_keras.models.specs import IMAGENET_MEAN, IMAGENET_STD
from zoo import files
from zoo.errors import needs_extra, printable
from zoo.evaluate.calibration import Calibration, Selection, thresholds
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
    print(f"wrote {printable(folder / RESULTS)} and figures")


def print_tables(result: Evaluation, names: Sequence[str], title: str) -> None:
    """Prints overall metrics, and those of every class, or of the worst ones."""
    figures = Table("", Column("", justify="right"), show_header=False)
    for key, (name, style) in FIGURES.items():
        if getattr(result, key) is not None:
            figures.add_row(name, format(getattr(result, key), style))
    rows, head = result.rows(names), "Classes"
    if len(names) > WORST:
        rows = worst_first(rows, "f1")[:WORST]
        head = f"The {WORST} of {len(names)} classes with the lowest F1"
    heads = ("class", "precision", "recall", "F1", "images")
    by_class = table(heads, (tuple(row.values()) for row in rows), ".4f")
    show(title, figures, *_selection_table(result.selection, ""), head, by_class)
    if result.calibration is not None:
        show(*_calibration_tables(result.calibration))


def _selection_table(curve: Selection, of: str) -> tuple[str, Table]:
    heads = ("precision", "threshold", "images kept", "their precision")
    rows = ((f"{row.pop('target'):.0%}", *row.values()) for row in thresholds(curve))
    return f"Thresholds of the score{of}", table(heads, rows, ".4f")


def _calibration_tables(found: Calibration) -> Sequence[str | Table]:
    head = (
        f"Temperature {found.temperature:.4f}, fitted to a half of {found.fitted_to:,} images with "
        f"{found.fitted_errors:,} errors"
    )
    if not found.fitted_errors:
        head += ": none can be fitted without errors"
    heads = ("on the other half", "before", "after")
    rows = [
        ("cross-entropy loss", *found.loss),
        ("calibration error", *found.calibration_error),
    ]
    return (
        head,
        table(heads, rows, ".4f"),
        *_selection_table(found.selection[1], " with this temperature, on the other half"),
    )


def write(
    result: Evaluation, names: Sequence[str], title: str, settings: dict[str, Any], folder: Path
) -> None:
    """Writes all metrics as JSON, and figures of confusions, errors and reliability."""
    words = readable(names)
    plot_confusion(
        result.confusion,
        words,
        f"{title}: top-1 accuracy {result.top1:.4f} ({result.images:,} images)",
        folder / CONFUSIONS,
    )
    plot_reliability(
        *result.reliability,
        f"{title}: calibration error {result.calibration_error:.4f}",
        folder / RELIABILITY,
    )
    for name in (MISTAKES, CALIBRATION):
        remove(folder / name)  # left by an earlier evaluation
    curves = {"": result.selection}
    if (found := result.calibration) is not None:
        _draw_calibration(found, title, folder)
        curves = {"before": found.selection[0], "after calibration": found.selection[1]}
    plot_selection(curves, f"{title}: images that a threshold keeps", folder / SELECTION)
    if result.mistakes:
        images, labels, probabilities = map(np.stack, zip(*result.mistakes, strict=True))
        wrong = np.count_nonzero(result.labels != result.predicted)
        plot_predictions(
            _pixels(images),
            labels,
            probabilities,
            words,
            f"{title}: the most confident of {wrong} errors",
            folder / MISTAKES,
        )
    pairs = [
        {"true": names[true], "predicted": names[predicted], "images": count}
        for true, predicted, count in confusions(result.confusion)
    ]
    figures = {key: getattr(result, key) for key in FIGURES}
    figures |= {"thresholds": thresholds(result.selection), "calibration": _as_json(found)}
    results = {**figures, "classes": result.rows(names), "confusions": pairs}
    write_json(folder, settings, {"backend": keras.config.backend(), **results})


def _draw_calibration(found: Calibration, title: str, folder: Path) -> None:
    before, after = found.calibration_error
    plot_reliability(
        *found.reliability[1],
        f"{title}: calibration error {before:.4f}, {after:.4f} with temperature "
        f"{found.temperature:.3f}",
        folder / CALIBRATION,
        before=found.reliability[0],
    )


def _as_json(found: Calibration | None) -> dict[str, Any] | None:
    if found is None:
        return None
    before, after = (
        {"loss": loss, "calibration_error": error, "thresholds": thresholds(curve)}
        for loss, error, curve in zip(
            found.loss, found.calibration_error, found.selection, strict=True
        )
    )
    return {
        "temperature": found.temperature,
        "images_fitted": found.fitted_to,
        "errors_fitted": found.fitted_errors,
        "images_measured": found.images,
        "before": before,
        "after": after,
    }


def _pixels(images: np.ndarray) -> np.ndarray:
    """Inverts `preprocess_input`: pixels in [0, 255]."""
    return 255 * (images * np.array(IMAGENET_STD, "f4") + np.array(IMAGENET_MEAN, "f4"))
