"""Pictures: right images marked, files whole."""

import numpy as np
import pytest
from PIL import Image

from zoo import plots


def test_curves_of_one_epoch_and_of_many(tmp_path):
    for epochs in (1, 30):
        history = {
            name: np.linspace(0.5, 0.9, epochs).tolist()
            for name in ("loss", "val_loss", "accuracy", "val_accuracy")
        }
        plots.plot_curves(history, "title", tmp_path / "curves.png")
        with Image.open(tmp_path / "curves.png") as image:
            assert image.width > image.height > 300


@pytest.mark.parametrize(("count", "wrong"), [(3, 1), (40, 5), (40, 40), (40, 0)])
def test_sheet_shows_mistakes_first(tmp_path, monkeypatch, count, wrong):
    tiles = []
    monkeypatch.setattr(plots, "_tile", lambda *a, wrong: tiles.append((*a[2:], wrong)))
    labels = np.arange(count) % 2
    predicted = labels.copy()
    predicted[count - wrong :] ^= 1
    plots.plot_predictions(
        np.zeros((count, 8, 8, 3)),
        labels,
        0.1 + 0.8 * np.eye(2)[predicted],
        ["cat", "dog"],
        "title",
        tmp_path / "sheet.png",
    )
    assert len(tiles) == min(count, 32)
    marked = [tile[-1] for tile in tiles]
    assert marked == sorted(marked, reverse=True)
    assert sum(marked) == (32 if wrong == count else min(wrong, 16))
    for head, foot, is_wrong in tiles:
        assert head.endswith("90 %")
        assert (head.split()[0] != foot.removeprefix("true: ")) == is_wrong


def test_sheet_is_drawn(tmp_path):
    images = np.full((2, 8, 8, 3), 255.0)
    images[..., 1:] = 0
    plots.plot_predictions(
        images, np.array([0, 1]), np.eye(2), ["a", "b"], "title", tmp_path / "sheet.png"
    )
    with Image.open(tmp_path / "sheet.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    assert (pixels == [255, 0, 0]).all(-1).mean() > 0.05
