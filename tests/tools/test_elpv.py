"""Solar cells: halves without a module in common."""

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
    paths = sorted((tmp_path / "new").glob("*/*/*.png"), key=lambda path: path.name)
    assert [path.name for path in paths] == ["c0.png", "c1.png", "c2.png", "c3.png"]
    assert [path.parent.name for path in paths] == ["defective", "intact"] * 2
    # Each type has a run in both.
    assert sorted(path.parts[-3] for path in paths) == ["train", "train", "val", "val"]
    np.testing.assert_array_equal(Image.open(paths[3]), np.full((8, 8), 150))
    with pytest.raises(ValueError, match="output: expected a new folder"):
        main(arguments)


def test_runs_stay_together():
    kinds = ["mono"] * 3 * CELLS + ["poly"] * (CELLS + 12) + ["mono"] * CELLS
    splits = [split(kinds, seed) for seed in range(20)]
    for training in splits:
        parts = np.split(training, np.cumsum([*[CELLS] * 4, 12]))
        assert all(part.all() or not part.any() for part in parts)
        assert sum(part.all() for part in parts) == 3  # two of mono, one of poly
    assert len({training.tobytes() for training in splits}) > 5
    np.testing.assert_array_equal(split(kinds, 3), splits[3])


def test_wrong_input(cells, tmp_path):
    arguments = ["--output", str(tmp_path / "new"), "--input"]
    with pytest.raises(ValueError, match=r"folder with labels.csv. Received: '.*nothing'"):
        main([*arguments, str(tmp_path / "nothing")])
    lines = {"c4.png 1.0": "image 'images/c4.png' of line 5", "c3.png high": "type in line 5 of"}
    for line, message in lines.items():
        (cells / "labels.csv").write_text(f"{LABELS}images/{line} mono\n")
        with pytest.raises(ValueError, match=message):
            main([*arguments, str(cells)])
    assert not (tmp_path / "new").exists()
