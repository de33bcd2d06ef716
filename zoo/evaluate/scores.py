"""Scores of predictions: their reliability, and thresholds."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

BINS = 15  # of confidence, as in Guo et al. (arXiv:1706.04599)
PRECISIONS = (0.9, 0.95, 0.99)  # of the images that a threshold keeps

Curve = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Scores:
    """Confidence of the predictions for some images, and which of them are right."""

    confidence: np.ndarray
    right: np.ndarray
    loss: float  # mean negative log likelihood, in nats

    @cached_property
    def reliability(self) -> Curve:
        """Number of images, mean confidence and accuracy in `BINS` bins of equal widths.

        Confidence and accuracy of empty bins are 0.
        """
        bins = np.minimum((self.confidence * BINS).astype(int), BINS - 1)
        count = np.bincount(bins, minlength=BINS)
        sums = (np.bincount(bins, values, BINS) for values in (self.confidence, self.right))
        confidence, accuracy = (total / np.maximum(count, 1) for total in sums)
        return count, confidence, accuracy

    @property
    def calibration_error(self) -> float:
        """Expected calibration error, from 0 to 1 (Guo et al., arXiv:1706.04599)."""
        count, confidence, accuracy = self.reliability
        return float(np.average(np.abs(confidence - accuracy), weights=count))

    @cached_property
    def selection(self) -> Curve:
        """Scores in descending order, fraction of images with each score or more, their precision.

        Images of one score are kept together.
        """
        order = np.argsort(-self.confidence, kind="stable")
        scores, hits = self.confidence[order], np.cumsum(self.right[order])
        last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))  # of each score
        return scores[last], (last + 1) / len(scores), hits[last] / (last + 1)

    def thresholds(self, precisions: Sequence[float] = PRECISIONS) -> list[dict[str, Any]]:
        """Returns for each precision the threshold that keeps the most images and reaches it.

        The threshold is None if no threshold reaches the precision.
        """
        names, rows = ("target", "threshold", "kept", "precision"), []
        for target in precisions:
            at = np.flatnonzero(self.selection[2] >= target)[-1:]
            row = [column[at].item() for column in self.selection] if at.size else (None, 0.0, None)
            rows.append(dict(zip(names, (target, *row), strict=True)))
        return rows

    def as_json(self) -> dict[str, Any]:
        """Returns the results for a report."""
        error, thresholds = self.calibration_error, self.thresholds()
        return {"loss": self.loss, "calibration_error": error, "thresholds": thresholds}


def negative_log_likelihood(log_probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean cross-entropy in nats."""
    return -float(log_probabilities[np.arange(len(labels)), labels].mean())
