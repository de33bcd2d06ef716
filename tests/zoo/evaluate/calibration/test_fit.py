"""Temperature scaling as computed by hand."""

import numpy as np
import pytest
from scipy.special import log_softmax

from zoo.evaluate.calibration.fit import SEED, calibrate, fit_temperature


def overconfident(count: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities of logits times a factor, and labels drawn from those without it."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (count, 5))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(-1)
    return log_softmax(factor * logits, -1).astype("float32"), labels


@pytest.mark.parametrize("factor", [0.4, 1, 3])
def test_the_temperature_undoes_the_factor(factor):
    assert fit_temperature(*overconfident(20_000, factor)) == pytest.approx(factor, rel=0.05)


def test_two_classes_and_errors_of_a_third_by_hand():
    """Every logit is 4 for the first class; a third is of the other: logit(2/3) = log 2 = 4 / T."""
    logs = log_softmax(np.tile([4.0, 0.0], (300, 1)), -1)
    labels = np.arange(300) % 3 // 2
    assert fit_temperature(logs, labels) == pytest.approx(4 / np.log(2), rel=1e-4)


def test_calibration_is_measured_on_the_other_half():
    logs, labels = overconfident(4001, 3)
    order = np.random.default_rng(SEED).permutation(4001)
    found = calibrate(logs, labels)
    assert (found.images_fitted, found.images_measured) == (2000, 2001)
    assert found.errors_fitted == (logs.argmax(-1) != labels)[order[:2000]].sum()
    assert found.temperature == fit_temperature(logs[order[:2000]], labels[order[:2000]])
    rest, truth = logs[order[2000:]].astype("float64"), labels[order[2000:]]
    for scores, divisor in ((found.before, 1), (found.after, found.temperature)):
        expected = log_softmax(rest / divisor, -1)
        assert scores.loss == pytest.approx(-expected[np.arange(2001), truth].mean())
        np.testing.assert_allclose(scores.confidence, np.exp(expected.max(-1)))
        np.testing.assert_array_equal(scores.right, expected.argmax(-1) == truth)
    assert found.after.calibration_error < found.before.calibration_error / 3
    assert found.as_json()["after"] == {
        "loss": found.after.loss,
        "calibration_error": found.after.calibration_error,
        "thresholds": found.after.thresholds((0.9, 0.95, 0.99)),
    }


def test_without_errors_there_is_no_temperature_to_fit():
    logs = log_softmax(np.tile([2.0, 0.0], (10, 1)), -1)
    found = calibrate(logs, np.zeros(10, int))
    assert (found.temperature, found.errors_fitted) == (1, 0)
    assert found.before.loss == found.after.loss == pytest.approx(np.log(1 + np.exp(-2)))
    with pytest.raises(ValueError, match=r"^calibrate: expected two images or more. Received: 1$"):
        calibrate(logs[:1], np.zeros(1, int))
