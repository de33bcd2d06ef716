"""Calibration and thresholds as computed by hand."""

import numpy as np
import pytest
from scipy.special import log_softmax

from zoo.evaluate import calibration
from zoo.evaluate.calibration import calibrate, fit_temperature, scaled, selection, thresholds


def overconfident(count: int, factor: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities of logits times a factor, and labels drawn from those without it."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (count, 5))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(-1)
    return log_softmax(factor * logits, -1).astype("float32"), labels


@pytest.mark.parametrize("temperature", [0.5, 1, 3])
def test_scaled_log_probabilities_are_those_of_scaled_logits(temperature):
    logits = np.random.default_rng(0).normal(0, 3, (7, 4))
    found = scaled(log_softmax(logits, -1), temperature)
    np.testing.assert_allclose(found, log_softmax(logits / temperature, -1), atol=1e-12)


@pytest.mark.parametrize("factor", [0.4, 1, 3])
def test_the_temperature_undoes_the_factor(factor):
    logs, labels = overconfident(20_000, factor)
    assert fit_temperature(logs, labels) == pytest.approx(factor, rel=0.05)


def test_two_classes_and_errors_of_a_third_by_hand():
    """Every logit is 4 for the first class; a third is of the other: logit(2/3) = log 2 = 4 / T."""
    logs = log_softmax(np.tile([4.0, 0.0], (300, 1)), -1)
    labels = np.arange(300) % 3 // 2
    assert fit_temperature(logs, labels) == pytest.approx(4 / np.log(2), rel=1e-4)


def test_calibration_is_measured_on_the_other_half():
    logs, labels = overconfident(4001, 3)
    order = np.random.default_rng(calibration.SEED).permutation(4001)
    found = calibrate(logs, labels)
    assert (found.fitted_to, found.images) == (2000, 2001)
    assert found.temperature == fit_temperature(logs[order[:2000]], labels[order[:2000]])
    rest, truth = logs[order[2000:]].astype("float64"), labels[order[2000:]]
    for place, divisor in enumerate((1, found.temperature)):
        expected = log_softmax(rest / divisor, -1)
        loss = -expected[np.arange(2001), truth].mean()
        assert found.loss[place] == pytest.approx(loss)
        confidence, right = np.exp(expected.max(-1)), expected.argmax(-1) == truth
        error = 0.0
        for low in np.arange(15) / 15:
            here = (confidence >= low) & (confidence < low + 1 / 15)
            if here.any():
                error += here.mean() * abs(confidence[here].mean() - right[here].mean())
        assert found.calibration_error[place] == pytest.approx(error, abs=1e-9)
    assert found.calibration_error[1] < found.calibration_error[0] / 3
    assert found.loss[1] < found.loss[0]
    assert found.fitted_errors == (logs.argmax(-1) != labels)[order[:2000]].sum()


def test_without_errors_there_is_no_temperature_to_fit():
    logs = log_softmax(np.tile([2.0, 0.0], (10, 1)), -1)
    found = calibrate(logs, np.zeros(10, int))
    assert (found.temperature, found.fitted_errors) == (1, 0)
    assert found.loss[0] == found.loss[1] == pytest.approx(np.log(1 + np.exp(-2)))


def test_one_image_is_too_few():
    with pytest.raises(ValueError, match=r"^calibrate: expected two images or more. Received: 1$"):
        calibrate(np.zeros((1, 2)), np.zeros(1, int))


def test_thresholds_by_hand():
    """Scores 0.9, 0.8 twice, 0.7 and 0.6; those of 0.8 are kept together, one of them wrong."""
    confidence = np.array([0.8, 0.6, 0.9, 0.7, 0.8])
    right = np.array([True, False, True, True, False])
    curve = selection(confidence, right)
    np.testing.assert_allclose(curve.threshold, [0.9, 0.8, 0.7, 0.6])
    np.testing.assert_allclose(curve.kept, [0.2, 0.6, 0.8, 1])
    np.testing.assert_allclose(curve.precision, [1, 2 / 3, 3 / 4, 3 / 5])
    assert thresholds(curve, (0.7, 0.8, 0.5)) == [
        {"target": 0.7, "threshold": 0.7, "kept": 0.8, "precision": 0.75},
        {"target": 0.8, "threshold": 0.9, "kept": 0.2, "precision": 1},
        {"target": 0.5, "threshold": 0.6, "kept": 1, "precision": 0.6},
    ]
    none = thresholds(selection(confidence, ~right), (0.9,))
    assert none == [{"target": 0.9, "threshold": None, "kept": 0, "precision": None}]
