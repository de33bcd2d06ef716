"""Calibration: reliability, a fitted temperature, and thresholds of the score."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

BINS = 15  # of confidence, as in Guo et al. (arXiv:1706.04599)
PRECISIONS = (0.9, 0.95, 0.99)  # of the images that a threshold keeps
SEED = 0  # of the half of the test images that the temperature is fitted to
TEMPERATURES = (0.05, 20.0)  # range of the fit
UNFITTED = 1.0  # where no prediction is wrong, and the likelihood has no minimum


class Reliability(NamedTuple):
    """Number of images, mean confidence and accuracy in bins of confidence of equal widths.

    Confidence and accuracy of empty bins are 0.
    """

    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @property
    def calibration_error(self) -> float:
        """Expected calibration error, from 0 to 1."""
        distance = np.abs(self.confidence - self.accuracy)
        return float((self.count * distance).sum() / self.count.sum())


def reliability(confidence: np.ndarray, right: np.ndarray) -> Reliability:
    """Sorts images by their confidence into `BINS` bins; `right` says which predictions are."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    count = np.bincount(bins, minlength=BINS)
    sums = (np.bincount(bins, values, BINS) for values in (confidence, right))
    return Reliability(count, *(total / np.maximum(count, 1) for total in sums))


class Selection(NamedTuple):
    """Images with a score of at least `threshold`: their fraction and their precision."""

    threshold: np.ndarray  # every score, the highest first
    kept: np.ndarray  # fraction of all images
    precision: np.ndarray  # fraction of the kept images whose prediction is right


def selection(confidence: np.ndarray, right: np.ndarray) -> Selection:
    """Returns the images that each threshold keeps; those of one score are kept together."""
    order = np.argsort(-confidence, kind="stable")
    scores, hits = confidence[order], np.cumsum(right[order])
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))  # of each score
    return Selection(scores[last], (last + 1) / len(scores), hits[last] / (last + 1))


def thresholds(curve: Selection, precisions: Sequence[float] = PRECISIONS) -> list[dict]:
    """Returns for each precision the threshold that keeps most images at it or above.

    The threshold is None if no threshold has this precision.
    """
    rows = []
    for target in precisions:
        good = np.flatnonzero(curve.precision >= target)
        found = (float(column[good[-1]]) for column in curve) if len(good) else (None, 0.0, None)
        rows.append(dict(zip(("threshold", "kept", "precision"), found, strict=True)))
    return [{"target": target, **row} for target, row in zip(precisions, rows, strict=True)]


def scaled(log_probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Returns log probabilities of the logits divided by a temperature; `(n, classes)`."""
    logits = log_probabilities.astype("float64") / temperature
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


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
    fitted_to: int  # images
    fitted_errors: int  # wrong predictions among these; of 0 no temperature can be fitted
    images: int  # of the other half
    loss: tuple[float, float]  # negative log likelihood before and after
    reliability: tuple[Reliability, Reliability]
    selection: tuple[Selection, Selection]

    @property
    def calibration_error(self) -> tuple[float, float]:
        """Expected calibration error before and after."""
        before, after = (bins.calibration_error for bins in self.reliability)
        return before, after


def calibrate(log_probabilities: np.ndarray, labels: np.ndarray) -> Calibration:
    """Fits a temperature to a random half of the images, and measures it on the other half."""
    count = len(labels)
    if count < 2:
        raise ValueError(f"calibrate: expected two images or more. Received: {count}")
    order = np.random.default_rng(SEED).permutation(count)
    fitted, held_out = order[: count // 2], order[count // 2 :]
    temperature = fit_temperature(log_probabilities[fitted], labels[fitted])
    losses, bins, curves, truth = [], [], [], labels[held_out]
    for divisor in (1.0, temperature):
        logs = scaled(log_probabilities[held_out], divisor)
        confidence, right = np.exp(logs.max(-1)), logs.argmax(-1) == truth
        losses.append(negative_log_likelihood(logs, truth))
        bins.append(reliability(confidence, right))
        curves.append(selection(confidence, right))
    return Calibration(
        temperature,
        len(fitted),
        int((log_probabilities[fitted].argmax(-1) != labels[fitted]).sum()),
        len(held_out),
        (losses[0], losses[1]),
        (bins[0], bins[1]),
        (curves[0], curves[1]),
    )
