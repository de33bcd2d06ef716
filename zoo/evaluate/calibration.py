"""Calibration: reliability, a fitted temperature, and thresholds of the score."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from zoo.errors import require

BINS = 15  # of confidence, as in Guo et al. (arXiv:1706.04599)
PRECISIONS = (0.9, 0.95, 0.99)  # of the images that a threshold keeps
SEED = 0  # of the half of the test images that the temperature is fitted to
TEMPERATURES = (0.05, 20.0)  # range of the fit
UNFITTED = 1.0  # where no prediction is wrong, and the likelihood has no minimum

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
        """Every score, the highest first, the fraction of images with it or more, their precision.

        Images of one score are kept together.
        """
        order = np.argsort(-self.confidence, kind="stable")
        scores, hits = self.confidence[order], np.cumsum(self.right[order])
        last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))  # of each score
        return scores[last], (last + 1) / len(scores), hits[last] / (last + 1)

    def thresholds(self, precisions: Sequence[float] = PRECISIONS) -> list[dict[str, Any]]:
        """Returns for each precision the threshold that keeps most images at it or above.

        The threshold is None if no threshold has this precision.
        """
        names, rows = ("target", "threshold", "kept", "precision"), []
        for target in precisions:
            at = np.flatnonzero(self.selection[2] >= target)[-1:]
            row = [one[at].item() for one in self.selection] if at.size else (None, 0.0, None)
            rows.append(dict(zip(names, (target, *row), strict=True)))
        return rows

    def as_json(self) -> dict[str, Any]:
        """Returns the results for a report."""
        error, thresholds = self.calibration_error, self.thresholds()
        return {"loss": self.loss, "calibration_error": error, "thresholds": thresholds}


def scaled(log_probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Returns log probabilities of the logits divided by a temperature; `(n, classes)`."""
    from scipy.special import log_softmax

    return log_softmax(log_probabilities.astype("float64") / temperature, -1)


def negative_log_likelihood(log_probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean cross-entropy in nats."""
    return -float(log_probabilities[np.arange(len(labels)), labels].mean())


def fit_temperature(log_probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the temperature in `TEMPERATURES` with the lowest negative log likelihood.

    It is `UNFITTED` if no prediction is wrong: the lower, the more likely the labels are then.
    """
    from scipy.optimize import minimize_scalar

    if (log_probabilities.argmax(-1) == labels).all():
        return UNFITTED
    # The likelihood has one minimum, as it is convex in the inverse temperature.
    found = minimize_scalar(
        lambda log: negative_log_likelihood(scaled(log_probabilities, np.exp(log)), labels),
        bounds=np.log(TEMPERATURES),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(np.exp(found.x))


@dataclass(frozen=True)
class Calibration:
    """A temperature fitted to one half of the images, and its effect on the other half."""

    temperature: float
    images_fitted: int
    errors_fitted: int  # wrong predictions among these; of 0 no temperature can be fitted
    images_measured: int  # of the other half
    before: Scores
    after: Scores

    def as_json(self) -> dict[str, Any]:
        """Returns the results for a report."""
        return {**vars(self), "before": self.before.as_json(), "after": self.after.as_json()}


def calibrate(log_probabilities: np.ndarray, labels: np.ndarray) -> Calibration:
    """Fits a temperature to a random half of the images, and measures it on the other half."""
    count = len(labels)
    require(count >= 2, "calibrate: expected two images or more", count)
    order = np.random.default_rng(SEED).permutation(count)
    fitted, held_out = order[: count // 2], order[count // 2 :]
    temperature = fit_temperature(log_probabilities[fitted], labels[fitted])
    errors = int((log_probabilities[fitted].argmax(-1) != labels[fitted]).sum())

    def scores(divisor: float) -> Scores:
        logs, truth = scaled(log_probabilities[held_out], divisor), labels[held_out]
        loss = negative_log_likelihood(logs, truth)
        return Scores(np.exp(logs.max(-1)), logs.argmax(-1) == truth, loss)

    sizes = (len(fitted), errors, len(held_out))
    return Calibration(temperature, *sizes, scores(1.0), scores(temperature))
