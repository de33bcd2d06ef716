"""Top-1 errors by corruption and severity, and the mean corruption error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.config import DataConfig
from zoo.evaluate import report
from zoo.evaluate.classes import match_classes
from zoo.evaluate.corruptions.plots import plot_corruptions
from zoo.evaluate.metrics import evaluate
from zoo.evaluate.variants import CORRUPTED
from zoo.inference.classifier import Classifier
from zoo.inference.source.base import ClassifierSource, load_images

FIGURE = "corruptions.png"
SEVERITIES = range(1, 6)
# Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and
# Perturbations, ICLR 2019 (arXiv:1903.12261): top-1 errors of AlexNet, from 0 to 1, means of the
# five severities, in the paper's order. The mean corruption error divides by them. The digits are
# as in the evaluation code of later papers; the protocol is ImageNet-C/test.py of
# github.com/hendrycks/robustness.
ALEXNET = {
    "gaussian_noise": 0.886428,
    "shot_noise": 0.894468,
    "impulse_noise": 0.922640,
    "defocus_blur": 0.819880,
    "glass_blur": 0.826268,
    "motion_blur": 0.785948,
    "zoom_blur": 0.798360,
    "snow": 0.866816,
    "frost": 0.826572,
    "fog": 0.819324,
    "brightness": 0.564592,
    "contrast": 0.853204,
    "elastic_transform": 0.646056,
    "pixelate": 0.717840,
    "jpeg_compression": 0.606500,
}


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
        """Mean error of each corruption relative to AlexNet's; 1 means as many errors."""
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

    def print_tables(self, title: str) -> None:
        """Prints the errors in percent, and their means."""
        heads = ("error, %", *map(str, SEVERITIES), "mean", "AlexNet", "relative")
        alexnet, relative = np.array(list(self.alexnet.values())), self.corruption_errors
        columns = [self.errors, self.errors.mean(1), alexnet, relative]
        percent = 100 * np.column_stack(columns)
        names = [*(name.replace("_", " ") for name in self.alexnet), "mean"]
        cells = zip(names, [*percent.tolist(), percent.mean(0).tolist()], strict=True)
        line = (
            f"mean corruption error (mCE) {100 * self.mean_corruption_error:.1f} % of AlexNet's; "
            f"unnormalized {100 * self.mean_error:.1f} % ({self.images:,} images)"
        )
        report.show(title, report.table(heads, ((name, *row) for name, row in cells), ".1f"), line)

    def write(self, title: str, settings: Mapping[str, Any], folder: Path) -> None:
        """Writes the errors as JSON, and a figure of them."""
        names = [name.replace("_", " ") for name in self.alexnet]
        title += f": mean corruption error {100 * self.mean_corruption_error:.1f} %"
        results = {
            "mean_corruption_error": self.mean_corruption_error,
            "mean_error": self.mean_error,
            "images": self.images,
            "corruptions": self.rows(),
        }
        with report.writing(folder) as temporary:
            alexnet = list(self.alexnet.values())
            plot_corruptions(names, self.errors, alexnet, title, temporary / FIGURE)
            report.write_json(temporary, settings, results)


def measure(
    source: ClassifierSource,
    data: DataConfig,
    precision: str | None = None,
    alexnet: Mapping[str, float] = ALEXNET,
    severities: Sequence[int] = SEVERITIES,
) -> tuple[Classifier, CorruptionErrors]:
    """Evaluates a network on all corruptions and severities, after checking that all are there."""
    names = [f"{CORRUPTED}/{name}_{severity}" for name in alexnet for severity in severities]
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
    return classifier, CorruptionErrors(alexnet, errors, sum(result.images for result in results))
