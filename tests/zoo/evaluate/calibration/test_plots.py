"""Reliability diagrams."""

import numpy as np

from zoo.evaluate.calibration import plots


def test_reliability_before_and_after_calibration(tmp_path, figures):
    bins = np.array([0, 4]), np.array([0, 0.8]), np.array([0, 0.75])
    for before in (None, bins):
        plots.plot_reliability(bins, "title", tmp_path / "a.png", before)
    lines = [[line.get_label() for line in figure.axes[0].lines] for figure in figures]
    assert lines[0] == ["perfect calibration", "accuracy"]
    assert lines[1] == ["perfect calibration", "before", "accuracy, calibrated"]
    for figure in figures:
        upper, lower = figure.axes
        for line in upper.lines[1:]:
            np.testing.assert_allclose(line.get_xydata(), [[0.8, 0.75]])
        (bar,) = upper.patches
        assert (bar.get_x(), bar.get_width(), bar.get_height()) == (0.5, 0.5, 0.75)
        assert [bar.get_height() for bar in lower.containers[0]] == [0, 4]
