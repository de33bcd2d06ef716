"""Scores and thresholds as computed by hand."""

import numpy as np
import pytest

from zoo.evaluate.scores import Scores


def test_calibration_error_is_the_distance_of_confidence_and_accuracy():
    """In fifteenths: 0.30 to 0.33 and 0.87 to 0.93 and, the last of all, 1."""
    confidence = np.array([0.31, 0.33, 0.32, 0.9, 0.88, 1.0])
    scores = Scores(confidence, np.array([True, False, False, True, True, True]), 0)
    count, mean, accuracy = scores.reliability
    assert count.tolist() == [0] * 4 + [3] + [0] * 8 + [2, 1]
    np.testing.assert_allclose(mean[[0, 4, 13, 14]], [0, 0.32, 0.89, 1])
    np.testing.assert_allclose(accuracy[[0, 4, 13, 14]], [0, 1 / 3, 1, 1])
    expected = (3 * abs(0.32 - 1 / 3) + 2 * 0.11) / 6
    assert scores.calibration_error == pytest.approx(expected)


def test_thresholds_by_hand():
    """Scores 0.9, 0.8 twice, 0.7 and 0.6; those of 0.8 are kept together, one of them wrong."""
    confidence = np.array([0.8, 0.6, 0.9, 0.7, 0.8])
    right = np.array([True, False, True, True, False])
    scores = Scores(confidence, right, 0)
    threshold, kept, precision = scores.selection
    np.testing.assert_allclose(threshold, [0.9, 0.8, 0.7, 0.6])
    np.testing.assert_allclose(kept, [0.2, 0.6, 0.8, 1])
    np.testing.assert_allclose(precision, [1, 2 / 3, 3 / 4, 3 / 5])
    assert scores.thresholds((0.75, 0.8, 0.5)) == [
        {"target": 0.75, "threshold": 0.7, "kept": 0.8, "precision": 0.75},
        {"target": 0.8, "threshold": 0.9, "kept": 0.2, "precision": 1},
        {"target": 0.5, "threshold": 0.6, "kept": 1, "precision": 0.6},
    ]
    none = Scores(confidence, ~right, 0).thresholds((0.9,))
    assert none == [{"target": 0.9, "threshold": None, "kept": 0, "precision": None}]
