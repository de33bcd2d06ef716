"""Drawings of paths: their answers are right, and nothing but the paths gives them away."""

import numpy as np
import pytest
from scipy import ndimage

from tools.paths import COLORS, GAP, LENGTHS, MARK, PATH, draw, main
from zoo.config import DataConfig
from zoo.data.load import load_data

COUNT = 2000


@pytest.fixture(scope="module")
def drawn():
    return draw(COUNT, seed=5)


def middle(image, color):
    """Row and column of the only square of 3 x 3 pixels of a color."""
    pixels = np.argwhere((image == color).all(-1))
    assert len(pixels) == 9
    assert (np.ptp(pixels, axis=0) == 2).all()
    return pixels.mean(0).astype(int)


def test_images_are_functions_of_the_seed():
    images, *others = draw(300, seed=0)
    assert (images.shape, images.dtype) == ((300, 32, 32, 3), "uint8")
    gray = [(0, 0, 0), (PATH,) * 3, (MARK,) * 3]
    assert set(map(tuple, np.unique(images.reshape(-1, 3), axis=0))) == {*gray, *COLORS.values()}
    for again, before in zip(draw(300, 0), (images, *others), strict=True):
        np.testing.assert_array_equal(again, before)
    # Other answers would mean another test set than the measured one.
    assert draw(300, seed=1)[1][:12].tolist() == [3, 0, 2, 3, 1, 1, 3, 2, 1, 0, 1, 0]


def test_label_is_the_color_that_the_marked_path_leads_to(drawn):
    for image, label, length in zip(*(part[:300] for part in drawn), strict=True):
        paths, count = ndimage.label(image.any(-1), np.ones((3, 3)))
        ends = [middle(image, color) for color in COLORS.values()]
        assert count == len({paths[*end] for end in ends}) == len(COLORS)
        mark = middle(image, MARK)
        assert [i for i, end in enumerate(ends) if paths[*end] == paths[*mark]] == [label]
        assert ends[label][1] - mark[1] == length
        assert min(np.diff(sorted(end[0] for end in ends))) >= GAP


def test_lengths_are_short_and_long(drawn):
    shares = np.bincount(drawn[2]) / COUNT
    assert (np.flatnonzero(shares)[[0, -1]] == LENGTHS).all()
    assert abs(shares[LENGTHS[0] :] * (LENGTHS[1] - LENGTHS[0] + 1) - 1).max() < 0.4


def test_neither_the_mark_nor_a_color_alone_gives_the_label_away(drawn):
    """Mean places of squares differ between right and wrong answers as little as chance has it."""
    colors = [(MARK,) * 3, *COLORS.values()]
    places = np.array([[middle(image, color) for color in colors] for image in drawn[0]])
    for label in range(len(COLORS)):
        right, wrong = (places[chosen] for chosen in (drawn[1] == label, drawn[1] != label))
        error = np.sqrt(right.var(0) / len(right) + wrong.var(0) / len(wrong))
        assert (abs(right.mean(0) - wrong.mean(0)) < 4 * error).all()
    assert abs(np.bincount(drawn[1]) / COUNT - 1 / len(COLORS)).max() < 0.04


def test_command_writes_a_folder_of_classes(tmp_path, capsys):
    """Read as the recipe of docs/measurements.md reads it: the drawn pixels, nothing cropped."""
    arguments = ["--output", str(tmp_path / "new"), "--train", "40", "--val", "24"]
    main([*arguments, "--seed", "3"])
    assert capsys.readouterr().out.startswith("wrote 2 x 40 + 24 images to ")
    source = {"source": "image_folder", "dir": str(tmp_path / "new"), "batch_size": 8}
    data = load_data(DataConfig(**source, augment=False, resize="squash"), image_size=32)
    assert data.class_names == tuple(sorted(COLORS))
    for images, count, seed, ways in ((data.train, 40, 6, (1, -1)), (data.test, 24, 7, (1,))):
        expected, labels, _ = draw(count, seed)
        pairs = [*zip(expected, labels, strict=True)]
        known = {one[::way].tobytes(): [*COLORS][label] for one, label in pairs for way in ways}
        assert images.count == len(known) == count * len(ways)
        pairs = zip(*images.sample(len(known)), strict=True)
        classes = data.class_names
        assert {one.astype("uint8").tobytes(): classes[label] for one, label in pairs} == known
    with pytest.raises(ValueError, match="output: expected a new folder"):
        main(arguments)
