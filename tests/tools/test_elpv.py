"""Solar cells: halves without a module in common."""

import itertools

import numpy as np
import pytest
from PIL import Image

from tools.elpv import CELLS, main, split

LABELS = "images/c0.png  1.0   mono\nimages/c1.png  0.3333333333333333  poly\n"
LABELS += "images/c2.png  0.6666666666666666 mono\nimages/c3.png  0.0    poly\n"


@pytest.fixture
def cells(tmp_path):
    folder = tmp_path / "data"
    (folder / "images").mkdir(parents=True)
    for number in range(4):
        gray = np.full((30, 30), 50 * number, "uint8")
        Image.fromarray(gray).save(folder / "images" / f"c{number}.png")
    (folder / "labels.csv").write_text(LABELS)
    return folder


def test_folders(cells, tmp_path, capsys):
    arguments = ["--input", str(cells), "--output", str(tmp_path / "new"), "--size", "8"]
    main(arguments)
    assert capsys.readouterr().out.startswith("wrote 2 images to train on and 2 to test on to ")
    found = {path.name: path.parent.name for path in (tmp_path / "new").glob("*/*/*.png")}
    names = ("defective", "intact", "defective", "intact")
    assert found == {f"c{number}.png": name for number, name in enumerate(names)}
    for part in ("train", "val"):  # each type has a run in both
        assert len(list((tmp_path / "new" / part).glob("*/*.png"))) == 2
    (path,) = (tmp_path / "new").glob("*/*/c3.png")
    np.testing.assert_array_equal(Image.open(path), np.full((8, 8), 150))
    with pytest.raises(ValueError, match="output: expected a new folder"):
        main(arguments)


def test_runs_stay_together():
    kinds = ["mono"] * 3 * CELLS + ["poly"] * (CELLS + 12) + ["mono"] * CELLS
    runs = [CELLS] * 4 + [12, CELLS]
    begins = np.cumsum([0, *runs])
    splits = [split(kinds, seed) for seed in range(20)]
    for training in splits:
        parts = [training[first:last] for first, last in itertools.pairwise(begins)]
        assert all(part.all() or not part.any() for part in parts)
        assert sum(part.all() for part in parts) == 3  # two of mono, one of poly
    assert len({training.tobytes() for training in splits}) > 5
    np.testing.assert_array_equal(split(kinds, 3), splits[3])


def test_wrong_input(cells, tmp_path):
    arguments = ["--input", str(cells), "--output", str(tmp_path / "new")]
    with pytest.raises(ValueError, match=r"folder with labels.csv. Received: '.*nothing'"):
        main(["--input", str(tmp_path / "nothing"), *arguments[2:]])
    (cells / "labels.csv").write_text(LABELS + "images/c4.png 1.0 mono\n")
    with pytest.raises(ValueError, match=r"image 'images/c4.png' of line 5"):
        main(arguments)
    (cells / "labels.csv").write_text(LABELS + "images/c3.png high mono\n")
    with pytest.raises(ValueError, match="probability and type in line 5 of"):
        main(arguments)
    assert not (tmp_path / "new").exists()
