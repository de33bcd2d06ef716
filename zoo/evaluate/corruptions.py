"""Errors on corrupted images: the 15 corruptions of ImageNet-C at five severities."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.config import DataConfig
from zoo.evaluate import report
from zoo.evaluate.classes import match_classes
from zoo.evaluate.metrics import evaluate
from zoo.evaluate.variants import CORRUPTED, SEVERITIES, corruptions
from zoo.inference.classifier import Classifier
from zoo.inference.source.base import ClassifierSource, load_images
from zoo.plots.classification import plot_corruptions

FIGURE = "corruptions.png"


@dataclass(frozen=True)
class CorruptionErrors:
    """Top-1 errors by corruption and severity, and their means (Hendrycks and Dietterich, 2019)."""

    alexnet: Mapping[str, float]  # its mean error by corruption
    errors: np.ndarray  # from 0 to 1, (corruptions, severities)
    images: int  # of all sets

    @property
    def mean_error(self) -> float:
        """Unnormalized mean of the errors, from 0 to 1."""
        return float(self.errors.mean())

    @property
    def corruption_errors(self) -> np.ndarray:
        """Mean error of each corruption relative to AlexNet's; 1 is as many errors."""
        return self.errors.mean(1) / np.array(list(self.alexnet.values()))

    @property
    def mean_corruption_error(self) -> float:
        """Mean of the relative errors, mCE; 1 is AlexNet's."""
        return float(self.corruption_errors.mean())

    def rows(self) -> list[dict[str, Any]]:
        """Returns the errors of each corruption."""
        columns = zip(self.alexnet.items(), self.errors, self.corruption_errors, strict=True)
        return [
            {
                "name": name,
                "errors": errors.tolist(),
                "error": float(errors.mean()),
                "alexnet_error": alexnet,
                "corruption_error": float(relative),
            }
            for (name, alexnet), errors, relative in columns
        ]


def run(
    source: ClassifierSource, data: DataConfig, precision: str | None = None
) -> tuple[Classifier, CorruptionErrors]:
    """Evaluates a network on all corruptions and severities, after checking that all are there."""
    alexnet = corruptions()
    names = [f"{CORRUPTED}/{name}_{severity}" for name in alexnet for severity in SEVERITIES]
    first, *others = (data.model_copy(update={"name": name}) for name in names)
    classifier, images = source.load_with_images(first)
    classifier = classifier.computing_in(precision)
    sets = [images, *(load_images(other, classifier.preprocessing) for other in others)]
    results = []
    for name, images in zip(names, sets, strict=True):
        print(name)
        classes = match_classes(classifier, images.class_names)
        results.append(evaluate(classifier, images.test, data.batch_size, classes))
    errors = np.reshape([1 - result.top1 for result in results], (len(alexnet), -1))
    return classifier, CorruptionErrors(alexnet, errors, sum(one.images for one in results))


def print_table(result: CorruptionErrors, title: str) -> None:
    """Prints the errors in percent, and their means."""
    heads = ("error, %", *map(str, SEVERITIES), "mean", "AlexNet", "relative")
    alexnet, relative = np.array(list(result.alexnet.values())), result.corruption_errors
    table = 100 * np.column_stack([result.errors, result.errors.mean(1), alexnet, relative])
    names = [*(name.replace("_", " ") for name in result.alexnet), "mean"]
    cells = zip(names, [*table.tolist(), table.mean(0).tolist()], strict=True)
    line = (
        f"mean corruption error (mCE) {100 * result.mean_corruption_error:.1f} % of AlexNet's; "
        f"unnormalized {100 * result.mean_error:.1f} % ({result.images:,} images)"
    )
    report.show(title, report.table(heads, ((name, *row) for name, row in cells), ".1f"), line)


def write(result: CorruptionErrors, title: str, settings: Mapping[str, Any], folder: Path) -> None:
    """Writes the errors as JSON, and a figure of them."""
    names = [name.replace("_", " ") for name in result.alexnet]
    title += f": mean corruption error {100 * result.mean_corruption_error:.1f} %"
    results = {
        "mean_corruption_error": result.mean_corruption_error,
        "mean_error": result.mean_error,
        "images": result.images,
        "corruptions": result.rows(),
    }
    with report.writing(folder) as beside:
        alexnet = list(result.alexnet.values())
        plot_corruptions(names, result.errors, alexnet, title, beside / FIGURE)
        report.write_json(beside, settings, results)
