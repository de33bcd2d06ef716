"""Errors on corrupted images: the 15 corruptions of ImageNet-C at five severities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.config import DataConfig
from zoo.evaluate import report
from zoo.evaluate.classes import match_classes
from zoo.evaluate.metrics import evaluate
from zoo.evaluate.variants import CORRUPTED, SEVERITIES, Corruption, corruptions
from zoo.inference.classifier import Classifier
from zoo.inference.source.base import ClassifierSource, load_images
from zoo.plots.classification import plot_corruptions

FIGURE = "corruptions.png"


@dataclass(frozen=True)
class CorruptionErrors:
    """Top-1 errors by corruption and severity, and their means (Hendrycks and Dietterich, 2019)."""

    kinds: Sequence[Corruption]
    errors: np.ndarray  # from 0 to 1, (corruptions, severities)
    images: int  # of all sets

    @property
    def mean_error(self) -> float:
        """Unnormalized mean of the errors, from 0 to 1."""
        return float(self.errors.mean())

    @property
    def corruption_errors(self) -> np.ndarray:
        """Mean error of each corruption relative to AlexNet's; 1 is as many errors."""
        return self.errors.mean(1) / np.array([kind.alexnet_error for kind in self.kinds])

    @property
    def mean_corruption_error(self) -> float:
        """Mean of the relative errors, mCE; 1 is AlexNet's."""
        return float(self.corruption_errors.mean())

    def rows(self) -> list[dict[str, Any]]:
        """Returns the errors of each corruption."""
        return [
            {
                "name": kind.name,
                "errors": errors.tolist(),
                "error": float(errors.mean()),
                "alexnet_error": kind.alexnet_error,
                "corruption_error": float(relative),
            }
            for kind, errors, relative in zip(
                self.kinds, self.errors, self.corruption_errors, strict=True
            )
        ]


def run(source: ClassifierSource, data: DataConfig) -> tuple[Classifier, CorruptionErrors]:
    """Evaluates a network on all corruptions and severities, after checking that all are there."""
    kinds = corruptions()
    names = [f"{CORRUPTED}/{kind.name}_{severity}" for kind in kinds for severity in SEVERITIES]
    first, *others = (data.model_copy(update={"name": name}) for name in names)
    classifier, images = source.load_with_images(first)
    sets = [images, *(load_images(other, classifier.preprocessing) for other in others)]
    errors, count = [], 0
    for name, images in zip(names, sets, strict=True):
        print(name)
        classes = match_classes(classifier, images.class_names)
        result = evaluate(classifier, images.test, data.batch_size, classes)
        errors.append(1 - result.top1)
        count += result.images
    return classifier, CorruptionErrors(kinds, np.reshape(errors, (len(kinds), -1)), count)


def print_table(result: CorruptionErrors, title: str) -> None:
    """Prints the errors in percent, and their means."""
    heads = ("error, %", *map(str, SEVERITIES), "mean", "AlexNet", "relative")
    rows: list[tuple[Any, ...]] = [
        (row["name"].replace("_", " "), *(100 * error for error in row["errors"]),
         100 * row["error"], 100 * row["alexnet_error"], 100 * row["corruption_error"])
        for row in result.rows()
    ]  # fmt: skip
    alexnet = np.mean([kind.alexnet_error for kind in result.kinds])
    means = (result.mean_error, alexnet, result.mean_corruption_error)
    rows.append(("mean", *(100 * result.errors.mean(0)), *(100 * mean for mean in means)))
    line = (
        f"mean corruption error (mCE) {100 * result.mean_corruption_error:.1f} % of AlexNet's; "
        f"unnormalized {100 * result.mean_error:.1f} % ({result.images:,} images)"
    )
    report.show(title, report.table(heads, rows, ".1f"), line)


def write(result: CorruptionErrors, title: str, settings: Mapping[str, Any], folder: Path) -> None:
    """Writes the errors as JSON, and a figure of them."""
    relative = 100 * result.mean_corruption_error
    plot_corruptions(
        [kind.name.replace("_", " ") for kind in result.kinds],
        result.errors,
        [kind.alexnet_error for kind in result.kinds],
        f"{title}: mean corruption error {relative:.1f} %",
        folder / FIGURE,
    )
    results = {
        "mean_corruption_error": result.mean_corruption_error,
        "mean_error": result.mean_error,
        "images": result.images,
        "corruptions": result.rows(),
    }
    report.write_json(folder, settings, results)
