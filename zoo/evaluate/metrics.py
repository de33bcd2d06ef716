"""Classification metrics on test images."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from zoo.data.errors import naming_errors
from zoo.data.load import EvalImages
from zoo.errors import needs_extra
from zoo.inference.classifier import Classifier

with needs_extra("train"):
    from rich.progress import track

TOP = 5  # classes of top-5 accuracy
BINS = 15  # bins of confidence, as usual for the calibration error
MOST_ERRORS = 32  # most confident errors, kept for a figure


class Mistake(NamedTuple):
    """A misclassified test image, preprocessed, with its true class and the model's outputs."""

    image: np.ndarray
    label: int
    probabilities: np.ndarray


@dataclass(frozen=True)
class Evaluation:
    """Predictions on test images, and their metrics."""

    labels: np.ndarray  # true class of each image
    predicted: np.ndarray  # most probable class of each image
    confidence: np.ndarray  # probability of that class
    classes: int
    # Fraction of the images with the true class among the five most probable ones; None for five
    # classes or fewer.
    top5: float | None
    loss: float  # mean cross-entropy in nats, without label smoothing
    images_per_second: float | None  # after the first batch, which compiles; None if it is the only
    mistakes: Sequence[Mistake] = ()  # most confident errors, at most `MOST_ERRORS`

    @property
    def top1(self) -> float:
        """Fraction of the images whose most probable class is the true one."""
        return float(np.mean(self.labels == self.predicted))

    @cached_property
    def confusion(self) -> np.ndarray:
        """Number of images by true class (row) and predicted class (column)."""
        counts = np.bincount(self.labels * self.classes + self.predicted, minlength=self.classes**2)
        return counts.reshape(self.classes, self.classes)

    @cached_property
    def by_class(self) -> tuple[np.ndarray, ...]:
        """Precision, recall, F1 and number of images of each class; NaN where undefined."""
        from sklearn import metrics

        return metrics.precision_recall_fscore_support(
            self.labels, self.predicted, labels=range(self.classes), zero_division=np.nan
        )

    @property
    def macro_f1(self) -> float:
        """Unweighted mean F1 of the classes with images."""
        _, _, f1, images = self.by_class
        return float(np.nan_to_num(f1[images > 0]).mean())

    @cached_property
    def reliability(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Number of images, mean confidence and accuracy in each of `BINS` ranges of confidence.

        Ranges have equal widths; confidence and accuracy of empty ones are 0.
        """
        bins = np.minimum((self.confidence * BINS).astype(int), BINS - 1)
        count = np.bincount(bins, minlength=BINS)
        right = self.labels == self.predicted
        confidence, accuracy = (np.bincount(bins, x, BINS) for x in (self.confidence, right))
        return count, confidence / np.maximum(count, 1), accuracy / np.maximum(count, 1)

    def rows(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Returns the metrics `by_class` of each class, with its name."""
        keys = ("name", "precision", "recall", "f1", "images")
        columns = (column.tolist() for column in self.by_class)
        return [dict(zip(keys, row, strict=True)) for row in zip(names, *columns, strict=True)]

    @property
    def images(self) -> int:
        """Number of images."""
        return len(self.labels)

    @property
    def calibration_error(self) -> float:
        """Expected calibration error, from 0 to 1 (Guo et al., arXiv:1706.04599)."""
        count, confidence, accuracy = self.reliability
        return float((count * np.abs(confidence - accuracy)).sum() / count.sum())


def check_classes(classifier: Classifier, class_names: Sequence[str]) -> None:
    """Checks that the classes of images are those of a model."""
    expected, received = list(classifier.class_names), list(class_names)
    if len(expected) != len(received):
        raise ValueError(
            f"data: expected images of {len(expected)} classes, as {classifier.name} knows. "
            f"Received: {len(received)} classes ({', '.join(received[:3])}, ...)"
        )
    for number, (own, other) in enumerate(zip(expected, received, strict=True)):
        if own != other:
            raise ValueError(
                f"data: expected the classes of {classifier.name}, of which number {number} is "
                f"{own!r}. Received: {other!r}"
            )


def evaluate(classifier: Classifier, test: EvalImages, batch_size: int) -> Evaluation:
    """Runs a model on every test image; unreadable ones are errors, or do not count."""
    classes = len(classifier.class_names)
    labels, predicted, confidence, clock = [], [], [], []
    mistakes: list[Mistake] = []
    in_top, loss = 0, 0.0
    batches = test.batches(batch_size, classes).as_numpy_iterator()
    with naming_errors():
        for images, one_hot, weights in track(batches, "Evaluating", total=test.steps(batch_size)):
            real = weights > 0  # the others pad the last batch, or were unreadable
            truth = one_hot.argmax(-1)[real]
            probabilities, images = _probabilities(classifier, images)[real], images[real]
            of_truth = probabilities[np.arange(len(truth)), truth]
            loss -= np.log(np.maximum(of_truth, np.finfo(float).eps)).sum()
            in_top += np.count_nonzero((probabilities > of_truth[:, None]).sum(-1) < TOP)
            labels.append(truth)
            predicted.append(probabilities.argmax(-1))
            confidence.append(probabilities.max(-1))
            for place in np.flatnonzero(probabilities.argmax(-1) != truth):
                image = images[place].copy()  # a view would keep the batch
                mistakes.append(Mistake(image, int(truth[place]), probabilities[place]))
            mistakes = sorted(mistakes, key=lambda one: -one.probabilities.max())[:MOST_ERRORS]
            clock.append(time.monotonic())
    count = sum(map(len, labels))
    if not count:
        raise ValueError("expected test images. Received: not one that can be read")
    return Evaluation(
        np.concatenate(labels),
        np.concatenate(predicted),
        np.concatenate(confidence),
        classes,
        in_top / count if classes > TOP else None,
        float(loss) / count,
        sum(map(len, labels[1:])) / (clock[-1] - clock[0]) if len(clock) > 1 else None,
        mistakes,
    )


def _probabilities(classifier: Classifier, images: np.ndarray) -> np.ndarray:
    outputs = classifier.infer(images).astype("float64")
    total = outputs.sum(-1, keepdims=True)
    if not np.allclose(total, 1, atol=1e-2):  # also refuses NaN
        raise ValueError(
            f"expected probabilities, which sum up to 1. Received: {classifier.name} returns "
            f"outputs with the sum {total.flat[np.argmax(np.abs(total - 1))]:.4g}"
        )
    return outputs / total
