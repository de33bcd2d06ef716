"""Classification metrics on test images."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from zoo.data.ahead import Waiting
from zoo.data.errors import naming_errors
from zoo.data.load import EvalImages
from zoo.errors import needs_extra, printable, refusal
from zoo.evaluate.classes import Classes, match_classes
from zoo.evaluate.scores import Scores
from zoo.inference.classifier import Classifier
from zoo.inference.predictions import check_outputs

with needs_extra("train"):
    from rich.progress import track

TOP = 5  # classes of top-5 accuracy
MOST_ERRORS = 32  # most confident errors, kept for a figure


class Mistake(NamedTuple):
    """A misclassified test image, preprocessed, with its true class and the model's outputs."""

    image: np.ndarray
    label: int
    probabilities: np.ndarray


@dataclass(frozen=True)
class Evaluation:
    """Predictions on test images, and their metrics.

    Where an image has several labels, its true class is the predicted one if that is among them,
    else the most probable of them; `loss` uses their total probability.
    """

    labels: np.ndarray  # true class of each image
    predicted: np.ndarray  # most probable class of each image
    confidence: np.ndarray  # probability of that class
    names: Sequence[str]  # of the classes
    # Fraction of the images with the true class among the five most probable ones; None for five
    # classes or fewer.
    top5: float | None
    loss: float  # mean cross-entropy in nats, without label smoothing
    images_per_second: float | None  # after the first batch, which compiles; None for one batch
    mistakes: Sequence[Mistake] = ()  # most confident errors, at most `MOST_ERRORS`
    log_probabilities: np.ndarray | None = None  # of all images, if they were kept
    # Fraction of the time after the first batch that was spent waiting for images.
    waiting: float | None = None

    @property
    def images(self) -> int:
        """Number of images."""
        return len(self.labels)

    @property
    def top1(self) -> float:
        """Fraction of the images whose most probable class is the true one."""
        return float(np.mean(self.labels == self.predicted))

    @cached_property
    def confusion(self) -> np.ndarray:
        """Number of images by true class (row) and predicted class (column)."""
        from sklearn import metrics

        classes = range(len(self.names))
        return metrics.confusion_matrix(self.labels, self.predicted, labels=classes)

    @cached_property
    def by_class(self) -> tuple[np.ndarray, ...]:
        """Precision, recall, F1 and number of images of each class; NaN where undefined."""
        from sklearn import metrics

        return metrics.precision_recall_fscore_support(
            self.labels, self.predicted, labels=range(len(self.names)), zero_division=np.nan
        )

    @property
    def macro_f1(self) -> float:
        """Unweighted mean F1 of the classes with images."""
        _, _, f1, images = self.by_class
        return float(np.nan_to_num(f1[images > 0]).mean())

    @cached_property
    def scores(self) -> Scores:
        """Confidence of the predictions: their reliability, and thresholds."""
        return Scores(self.confidence, self.labels == self.predicted, self.loss)

    @property
    def calibration_error(self) -> float:
        """Expected calibration error, from 0 to 1."""
        return self.scores.calibration_error

    def rows(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Returns the metrics `by_class` of each class, with its name."""
        keys = ("name", "precision", "recall", "f1", "images")
        columns = (column.tolist() for column in self.by_class)
        return [dict(zip(keys, row, strict=True)) for row in zip(names, *columns, strict=True)]


def evaluate(
    classifier: Classifier,
    test: EvalImages,
    batch_size: int,
    classes: Classes | None = None,
    keep_outputs: bool = False,
    now: Callable[[], float] = time.monotonic,
) -> Evaluation:
    """Evaluates a model on test images, without unlabeled and skipped unreadable ones.

    Outputs of other classes than `classes` are left out before the softmax; None: all count. With
    `keep_outputs`, the result has the log probabilities of all images.
    """
    classes = classes or match_classes(classifier, classifier.class_names)
    columns, logs, clock = [], [], []
    mistakes: list[Mistake] = []
    stream = test.batches(batch_size, len(classes.label_names)).as_numpy_iterator()
    batches, steps = Waiting(stream), test.steps(batch_size)
    with naming_errors(test.files):
        for images, targets, weights in track(batches, "Evaluating", total=steps):
            # Other images pad the last batch, were unreadable, or have no label.
            real = (weights > 0) & targets.any(-1)
            is_true = _true_classes(targets[real] > 0, classes)
            probabilities, images = _probabilities(classifier, images)[real], images[real]
            probabilities = classes.select(probabilities)
            guess, row = probabilities.argmax(-1), np.arange(len(images))
            true_probabilities = np.where(is_true, probabilities, -1)
            truth = np.where(is_true[row, guess], guess, true_probabilities.argmax(-1))
            total = (probabilities * is_true).sum(-1)
            loss = -np.log(np.maximum(total, np.finfo(float).eps))
            rank = (probabilities > true_probabilities.max(-1, keepdims=True)).sum(-1)
            columns.append((truth, guess, probabilities.max(-1), loss, rank < TOP))
            if keep_outputs:
                logs.append(np.log(probabilities).astype("float32"))
            for place in np.flatnonzero(guess != truth):
                image = images[place].copy()  # a view would keep the batch
                mistakes.append(Mistake(image, int(truth[place]), probabilities[place]))
            mistakes = sorted(mistakes, key=lambda error: -error.probabilities.max())[:MOST_ERRORS]
            clock.append(now())
    if not sum(len(labels) for labels, *_ in columns):
        raise ValueError("expected test images. Received: not one that can be read")
    later = sum(len(labels) for labels, *_ in columns[1:])
    labels, predicted, confidence, losses, in_top = map(np.concatenate, zip(*columns, strict=True))
    return Evaluation(
        labels,
        predicted,
        confidence,
        classes.names,
        float(in_top.mean()) if len(classes.names) > TOP else None,
        float(losses.mean()),
        later / (clock[-1] - clock[0]) if len(clock) > 1 else None,
        mistakes,
        np.concatenate(logs) if keep_outputs else None,
        batches.share,
    )


def _true_classes(targets: np.ndarray, classes: Classes) -> np.ndarray:
    """Returns which of the evaluated classes are true; every image has to have one of them."""
    chosen = targets[:, classes.labels]
    if not (known := chosen.any(-1)).all():
        names, name = classes.names, classes.label_names[int(targets[known.argmin()].argmax())]
        expected = f"data: expected images of {len(names)} classes ({names[0]}, ...)"
        raise refusal(expected, f"one of {printable(name)}")
    return chosen


def _probabilities(classifier: Classifier, images: np.ndarray) -> np.ndarray:
    outputs = classifier.infer(images).astype("float64")
    check_outputs(classifier.name, {"probabilities": outputs})
    total = outputs.sum(-1, keepdims=True)
    if not np.allclose(total, 1, atol=1e-2):
        worst = total.flat[np.argmax(np.abs(total - 1))]
        received = f"{classifier.name} returns outputs with the sum {worst:.4g}"
        raise refusal("expected probabilities, which sum up to 1", received)
    return outputs / total
