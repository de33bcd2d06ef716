"""The figure of errors on corrupted images."""

import numpy as np

from zoo.evaluate.corruptions import plots


def test_corruptions_have_a_row_each(tmp_path, figures):
    errors = np.linspace(0.1, 0.9, 15).reshape(3, 5)
    names, path = ["fog", "snow", "frost"], tmp_path / "corruptions.png"
    plots.plot_corruptions(names, errors, [0.5, 0.6, 0.7], "title", path)
    (axis,) = figures[0].axes
    np.testing.assert_allclose([bar.get_width() for bar in axis.patches], 100 * errors.mean(1))
    *severities, alexnet = axis.collections
    points = [100 * errors[:, 4], [0, 1, 2]]
    np.testing.assert_allclose(severities[4].get_offsets().T, points)
    np.testing.assert_allclose(alexnet.get_offsets().T, [[50, 60, 70], [0, 1, 2]])
    assert [text.get_text() for text in axis.get_yticklabels()] == names
