"""Drawings of paths: their answers are right, and nothing but the paths gives them away."""

import numpy as np
import pytest
from scipy import ndimage

from zoo.config import DataConfig
from zoo.data.load import load_data
from zoo.data.pathfinder import DISTANCE, MARK, PATH, draw_pathfinder


@pytest.fixture(scope="module")
def drawn():
    """Grey images and labels."""
    images, labels = draw_pathfinder(3000, seed=5)
    return images[..., 0], labels


def centres(image):
    """The middles of the two marks."""
    marks, count = ndimage.label(image == MARK, np.ones((3, 3)))
    assert count == 2
    return np.array(ndimage.center_of_mass(image == MARK, marks, [1, 2]))


def test_images_are_functions_of_the_seed_and_their_number():
    images, labels = draw_pathfinder(50, seed=0)
    assert (images.shape, images.dtype) == ((50, 32, 32, 3), "uint8")
    assert set(np.unique(images)) == {0, PATH, MARK}
    more, more_labels = draw_pathfinder(700, seed=0)
    np.testing.assert_array_equal(more[:50], images)
    np.testing.assert_array_equal(more_labels[:50], labels)
    assert len({image.tobytes() for image in more}) == 700
    others, _ = draw_pathfinder(50, seed=1)
    assert not {image.tobytes() for image in others} & {image.tobytes() for image in more}
    # Other answers would mean another test set.
    assert draw_pathfinder(50, seed=1)[1][:10].tolist() == [0, 1, 1, 1, 1, 1, 0, 0, 0, 1]
    with pytest.raises(ValueError, match="read-only"):
        images[0] = 0


def test_labels_say_whether_marks_are_connected(drawn):
    for image, label in zip(*(part[:400] for part in drawn), strict=True):
        paths, count = ndimage.label(image, np.ones((3, 3)))
        assert count == 2
        assert (len(np.unique(paths[image == MARK])) == 1) == label


def test_marks_are_apart(drawn):
    distances = [np.linalg.norm(np.subtract(*centres(image))) for image in drawn[0][:400]]
    assert DISTANCE <= min(distances) < DISTANCE + 1
    assert max(distances) > 2 * DISTANCE


def test_neither_places_nor_surroundings_of_marks_give_the_label_away(drawn):
    """Their means of both classes differ as little as those of random halves do."""
    images, labels = drawn
    figures = []
    for image in images:
        ends = centres(image).astype(int)
        padded = np.pad(image.astype(int), 4)
        patches = [padded[row : row + 9, column : column + 9] for row, column in ends]
        around = np.add(*patches)
        between = abs(ends[0] - ends[1])
        figures.append([*ends.sum(0), *between, np.hypot(*between), *around.sum(0), *around.sum(1)])
    groups = [np.array(figures)[labels == label] for label in (0, 1)]
    error = np.sqrt(sum(group.var(0) / len(group) for group in groups))
    assert (abs(groups[0].mean(0) - groups[1].mean(0)) < 3 * error).all()
    assert abs(labels.mean() - 0.5) < 0.03


def test_training_images_are_flipped_and_test_images_are_not(few_paths):
    config = DataConfig(source="pathfinder", batch_size=8)
    data = load_data(config, image_size=32)
    assert (data.train.count, data.test.count) == (200, 60)
    assert data.class_names == ("two paths", "one path")
    flipped = {
        image[::up, ::left].tobytes(): (label, up, left)
        for image, label in zip(*draw_pathfinder(200, seed=0), strict=True)
        for up in (1, -1)
        for left in (1, -1)
    }
    images, labels = data.train.sample(200)
    found = [flipped[image.astype("uint8").tobytes()] for image in images]
    assert [label for label, _, _ in found] == labels.tolist()
    assert len({(up, left) for _, up, left in found}) == 4
    images, labels = data.test.sample(60)
    drawn = {image.tobytes(): label for image, label in zip(*draw_pathfinder(60, 1), strict=True)}
    assert [drawn[image.astype("uint8").tobytes()] for image in images] == labels.tolist()
