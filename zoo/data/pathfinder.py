"""Images of two paths: do the two marked ends belong to one of them?"""

from functools import cache

import numpy as np

CLASS_NAMES = ("two paths", "one path")
TRAIN_COUNT, TEST_COUNT = 16_000, 2_000

SIZE = 32  # height and width of an image in pixels
MARGIN = 3  # pixels from the border to an end, at least
DISTANCE = 12  # pixels between two ends, at least
CLEARANCE = 4  # pixels between two paths, at least
BEND = 0.2  # of a path's control point from the middle of its chord, in parts of that, at most
POINTS = 64  # of a path that are drawn; every fourth is looked at for clearance
PATH, MARK = 128, 255  # their grey levels, on black
CANDIDATES = 4096  # drawings that are tried together

Arrays = tuple[np.ndarray, np.ndarray]


def pathfinder_arrays() -> tuple[Arrays, Arrays]:
    """Returns the training and the test images of the source `pathfinder`, always the same ones."""
    return draw_pathfinder(TRAIN_COUNT, seed=0), draw_pathfinder(TEST_COUNT, seed=1)


@cache
def draw_pathfinder(count: int, seed: int) -> Arrays:
    """Draws a small Pathfinder task (Linsley et al., 2018, arXiv:1805.08315).

    Every image has two smooth paths that do not touch, and marks at two of their four ends. The
    ends are chosen first, such that paths fit between them both ways; then a coin decides which way
    they are drawn. So the places of the ends say nothing of the label, nor does a part of an image
    that has one end: one has to know where its path leads.

    Args:
        count: Number of images.
        seed: Seed of all that is random, from 0.

    Returns:
        Grey images, uint8 of shape `(count, 32, 32, 3)`, and labels, int64 of shape `(count,)`: 1
        if the marked ends belong to one path, else 0. Both are read-only.

    Example:

    >>> from zoo.data.pathfinder import draw_pathfinder
    >>> images, labels = draw_pathfinder(8, seed=0)
    >>> images.shape, labels.shape
    ((8, 32, 32, 3), (8,))
    """
    rng = np.random.default_rng(seed)
    images, labels, found = [], [], 0
    while found < count:
        ends = rng.integers(MARGIN, SIZE - MARGIN, (CANDIDATES, 4, 2))
        first, second = np.triu_indices(4, 1)
        ends = ends[_distance(ends[:, first], ends[:, second]).min(-1) >= DISTANCE]
        # Marks are at ends 0 and 1: of two paths in the first drawing, of one in the second.
        drawings = np.stack([_curves(ends[:, [0, 2, 1, 3]], rng), _curves(ends, rng)], axis=1)
        fits = _fits(drawings).all(-1)
        ends, drawings = ends[fits], drawings[fits]
        label = rng.integers(0, 2, len(ends))
        images.append(_draw(drawings[np.arange(len(ends)), label], ends[:, :2]))
        labels.append(label)
        found += len(ends)
    arrays = np.concatenate(images)[:count], np.concatenate(labels)[:count]
    arrays = np.repeat(arrays[0][..., None], 3, axis=-1), arrays[1]
    for array in arrays:
        array.setflags(write=False)
    return arrays


def _distance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.linalg.norm(one - other, axis=-1)


def _curves(ends: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns paths 0-1 and 2-3, quadratic Bézier curves: `(n, 4, 2)` -> `(n, 2, POINTS, 2)`."""
    start, end = ends[:, ::2, None], ends[:, 1::2, None]
    across = (end - start)[..., ::-1] * (-1, 1)
    control = (start + end) / 2 + rng.uniform(-BEND, BEND, (len(ends), 2, 1, 1)) * across
    t = np.linspace(0, 1, POINTS)[:, None]
    return (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end


def _fits(drawings: np.ndarray) -> np.ndarray:
    """Returns whether paths are apart and within the image: `(..., 2, POINTS, 2)` -> `(...)`."""
    one, other = drawings[..., 0, ::4, None, :], drawings[..., 1, None, ::4, :]
    apart = _distance(one, other).min((-1, -2)) >= CLEARANCE
    return apart & ((drawings >= 1) & (drawings <= SIZE - 2)).all((-1, -2, -3))


def _draw(paths: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Returns images `(n, SIZE, SIZE)` of paths `(n, 2, POINTS, 2)` and marks at `(n, 2, 2)`."""
    images = np.zeros((len(paths), SIZE, SIZE), "uint8")
    number = np.arange(len(paths))[:, None]
    rows, columns = np.moveaxis(np.round(paths).astype(int).reshape(len(paths), -1, 2), -1, 0)
    images[number, rows, columns] = PATH
    square = np.stack(np.mgrid[-1:2, -1:2], axis=-1).reshape(9, 2)
    rows, columns = np.moveaxis((marked[:, :, None] + square).reshape(len(paths), -1, 2), -1, 0)
    images[number, rows, columns] = MARK
    return images
