"""`zoo.generate`: the figure and the printed results of a tiny network, and bad settings."""

import re

import numpy as np
import pytest
from PIL import Image
from support.commands import fail

from zoo.generate.__main__ import main
from zoo.plots.generated import mosaic

TINY = ("--steps", "2", "--depth", "8", "--blocks", "1", "--count", "5", "--batch_size", "8")


def test_writes_a_figure_and_prints_bits_per_pixel(tmp_path, capsys):
    main(["--output", str(tmp_path / "digits.png"), *TINY])
    printed = capsys.readouterr().out
    assert "bits per pixel of 360 held-out digits: " in printed
    bits, baseline = map(float, re.findall(r"bits per pixel .*: ([\d.]+)", printed))
    assert 0 < bits < 8
    assert baseline == pytest.approx(2.435, abs=1e-3)
    assert re.search(r"[\d.]+ digits/s, 5 at a time", printed)
    with Image.open(tmp_path / "digits.png") as image:
        assert image.width > image.height > 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "output: Field required"),
        (["--output", "digits.jpg"], "a file named .png. Received: 'digits.jpg'"),
        (["--output", "a.png", "--steps", "0"], "steps: Input should be greater"),
        (["--output", "a.png", "--seed", "-1"], "seed: Input should be greater"),
        (["--output", "a.png", "--depth", "10"], "a multiple of 4, the heads. Received: 10"),
        (["--output", "a.png", "--batch_size", "2000"], "batch_size: Input should be less"),
        (["--output", "a.png", "--learning_rate", "nan"], "Received: 'nan'"),
        (["--output", "a.png", "--digits", "3"], "no such setting. Received: '--digits'"),
    ],
)
def test_bad_settings(arguments, message, monkeypatch, capsys):
    assert message in fail(main, monkeypatch, capsys, *arguments)


def test_mosaic_in_rows():
    images = np.arange(1.0, 4.0)[:, None, None] * np.ones((3, 2, 2))
    joined = mosaic(images, 2)
    assert joined.shape == (8, 8)
    assert joined[1, 1] == 1
    assert joined[1, 5] == 2
    assert joined[5, 1] == 3
    assert joined[0].sum() == joined[4:, 4:].sum() == 0
