"""Temperature scaling: the fit, and its effect on held-out images."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo.evaluate.scores import Scores, negative_log_likelihood

SEED = 0  # of the random half of the test images that the temperature is fitted to
TEMPERATURES = (0.05, 20.0)  # range of the fit
UNFITTED = 1.0  # if no prediction is wrong: the negative log likelihood has no minimum


def scaled(log_probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Returns log probabilities of the logits divided by a temperature; `(n, classes)`."""
    from scipy.special import log_softmax

    return log_softmax(log_probabilities.astype("float64") / temperature, -1)


def fit_temperature(log_probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the temperature in `TEMPERATURES` with the lowest negative log likelihood.

    It is `UNFITTED` if no prediction is wrong: lower temperatures would always fit better.
    """
    from scipy.optimize import minimize_scalar

    if (log_probabilities.argmax(-1) == labels).all():
        return UNFITTED
    # The negative log likelihood has one minimum, as it is convex in the inverse temperature.
    minimum = minimize_scalar(
        lambda log: negative_log_likelihood(scaled(log_probabilities, np.exp(log)), labels),
        bounds=np.log(TEMPERATURES),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(np.exp(minimum.x))


@dataclass(frozen=True)
class Calibration:
    """A temperature fitted to one half of the images, and its effect on the other half."""

    temperature: float
    images_fitted: int
    errors_fitted: int  # wrong predictions among these; with 0, no temperature can be fitted
    images_measured: int  # of the other half
    before: Scores
    after: Scores

    def as_json(self) -> dict[str, Any]:
        """Returns the results for a report."""
        return {**vars(self), "before": self.before.as_json(), "after": self.after.as_json()}


def calibrate(log_probabilities: np.ndarray, labels: np.ndarray) -> Calibration:
    """Fits a temperature to a random half of the images, and measures it on the other half."""
    count = len(labels)
    if count < 2:
        raise ValueError(f"calibrate: expected two images or more. Received: {count}")
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
