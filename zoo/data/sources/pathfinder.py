"""Pathfinder: drawings of paths, whose class is the color at the other end of the marked one."""

from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from zoo.data.sources.base import Arrays, ArraySource, Record

# RGB colors of the right ends of the paths, all of which are in every image.
COLORS = {
    "red": (255, 64, 64),
    "green": (64, 255, 64),
    "blue": (64, 64, 255),
    "yellow": (255, 255, 64),
}
CLASS_NAMES = tuple(COLORS)
PATH, MARK = 128, 255  # gray levels, on black
TRAIN_COUNT, TEST_COUNT = 6_400, 2_000

SIZE = 32  # height and width of an image in pixels
MARGIN = 3  # least number of rows from the border to an end
GAP = 7  # least number of rows between ends of two paths
LENGTHS = (6, 26)  # least and largest number of columns of a path
POINTS = 2 * SIZE  # drawn points of a path


class Source(ArraySource):
    """Drawings of paths, flipped upside down at random in training."""

    class_names: ClassVar = CLASS_NAMES

    def arrays(self) -> tuple[Arrays, Arrays]:
        return draw_pathfinder(TRAIN_COUNT, seed=0)[:2], draw_pathfinder(TEST_COUNT, seed=1)[:2]

    def augmented(self, record: Record, seed: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
        image, readable = self.read(record)
        image = tf.image.resize(image, (size, size))
        return tf.image.stateless_random_flip_up_down(image, seed), readable


def draw_pathfinder(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws an easy Pathfinder task (after Linsley et al., 2018, arXiv:1805.08315).

    Four paths run from the left to the right and do not touch. Their right ends are squares of the
    four colors, in random order. A white square marks one of the left ends; the label is the color
    at the other end of that path, so that a network has to relate two distant positions.

    Returns:
        Images, uint8 of shape `(count, 32, 32, 3)`, labels, and lengths of the marked paths, from
        the mark to the color.
    """
    rng = np.random.default_rng(seed)
    shape = count, len(COLORS)  # a row of paths for each image
    free = SIZE - 2 * MARGIN - GAP * (len(COLORS) - 1)
    steps = np.sort(rng.integers(0, free, (2, *shape)), axis=-1)
    left, right = steps + MARGIN + GAP * np.arange(len(COLORS))
    lengths = rng.integers(LENGTHS[0], LENGTHS[1] + 1, shape)
    begin = rng.integers(MARGIN - 1, SIZE - MARGIN + 1 - lengths)
    colors = rng.permuted(np.tile(np.arange(len(COLORS)), (count, 1)), axis=1)
    marked = np.arange(count), rng.integers(0, len(COLORS), count)

    images = np.zeros((count, SIZE, SIZE, 3), "uint8")
    t = np.linspace(0, 1, POINTS)
    rows = left[..., None] + (right - left)[..., None] * t**2 * (3 - 2 * t)
    _paint(images, rows, begin[..., None] + lengths[..., None] * t, PATH)
    _paint_squares(images, right, begin + lengths, np.array([*COLORS.values()])[colors])
    _paint_squares(images, left[marked][:, None], begin[marked][:, None], np.full(3, MARK))
    return images, colors[marked], lengths[marked]


def _paint(images: np.ndarray, rows: np.ndarray, columns: np.ndarray, color: Any) -> None:
    """Sets pixels at rows and columns of each image, `(count, paths, points)`."""
    number = np.arange(len(images))[:, None, None]
    images[number, np.rint(rows).astype(int), np.rint(columns).astype(int)] = color


def _paint_squares(images: np.ndarray, rows: np.ndarray, columns: np.ndarray, color: Any) -> None:
    """Sets 3 x 3 pixels around each place, `(count, paths)`, to colors `(count, paths, 3)`."""
    down, across = np.mgrid[-1:2, -1:2].reshape(2, 9)
    _paint(images, rows[..., None] + down, columns[..., None] + across, color[..., None, :])
