"""Drawings of paths: their answers are right, and nothing but the paths gives them away."""

import numpy as np
import pytest
from scipy import ndimage

from zoo.config import DataConfig
from zoo.data.load import load_data
from zoo.data.sources.pathfinder import (
    CLASS_NAMES,
    COLORS,
    GAP,
    LENGTHS,
    MARK,
    PATH,
    Source,
    draw_pathfinder,
)

TOUCHING = np.ones((3, 3))
COUNT = 2000


@pytest.fixture(scope="module")
def drawn():
    return draw_pathfinder(COUNT, seed=5)


def shown(image, color):
    """Which pixels of an image have a colour."""
    return (image == color).all(-1)


def middle(image, color):
    """Row and column of the only square of 3 x 3 pixels of a colour."""
    pixels = np.argwhere(shown(image, color))
    assert len(pixels) == 9
    assert (np.ptp(pixels, axis=0) == 2).all()
    return pixels.mean(0).astype(int)


def test_images_are_functions_of_the_seed():
    images, labels, lengths = draw_pathfinder(300, seed=0)
    assert (images.shape, images.dtype) == ((300, 32, 32, 3), "uint8")
    assert labels.shape == lengths.shape == (300,)
    grey = [(0, 0, 0), (PATH,) * 3, (MARK,) * 3]
    assert set(map(tuple, np.unique(images.reshape(-1, 3), axis=0))) == {*grey, *COLORS.values()}
    for again, before in zip(draw_pathfinder(300, 0), (images, labels, lengths), strict=True):
        np.testing.assert_array_equal(again, before)
    others = draw_pathfinder(300, seed=1)
    assert not {i.tobytes() for i in others[0]} & {i.tobytes() for i in images}
    # Other answers would mean another test set.
    assert others[1][:12].tolist() == [3, 0, 2, 3, 1, 1, 3, 2, 1, 0, 1, 0]


def test_label_is_the_color_that_the_marked_path_leads_to(drawn):
    for image, label, length in zip(*(part[:300] for part in drawn), strict=True):
        paths, count = ndimage.label(image.any(-1), TOUCHING)
        assert count == len(COLORS)
        ends = {name: middle(image, color) for name, color in COLORS.items()}
        assert len({paths[*end] for end in ends.values()}) == count
        mark = middle(image, MARK)
        (name,) = (name for name, end in ends.items() if paths[*end] == paths[*mark])
        assert name == CLASS_NAMES[label]
        assert ends[name][1] - mark[1] == length
        rows = sorted(end[0] for end in ends.values())
        assert min(np.diff(rows)) >= GAP


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


def test_some_training_images_are_upside_down_and_no_test_images_are(few_paths):
    data = load_data(DataConfig(source="pathfinder", batch_size=8), image_size=32)
    assert (data.train.count, data.test.count) == (200, 60)
    assert data.class_names == CLASS_NAMES
    (train, train_labels), (test, test_labels) = Source(DataConfig(source="pathfinder")).arrays()
    known = {
        image[::way].tobytes(): (label, way)
        for image, label in zip(train, train_labels, strict=True)
        for way in (1, -1)
    }
    images, labels = data.train.sample(200)
    found = [known[image.astype("uint8").tobytes()] for image in images]
    assert [label for label, _ in found] == labels.tolist()
    assert 60 < sum(way == -1 for _, way in found) < 140
    images, labels = data.test.sample(60)
    known = {image.tobytes(): label for image, label in zip(test, test_labels, strict=True)}
    assert [known[image.astype("uint8").tobytes()] for image in images] == labels.tolist()
