"""Random changes of images."""

import numpy as np
import tensorflow as tf

from zoo.augment import random_crop_and_flip, random_shift

IMAGE = tf.constant(np.random.default_rng(0).uniform(1, 255, (16, 16, 3)).astype("float32"))


def seeds(count):
    return [tf.constant([0, i], tf.int64) for i in range(count)]


def test_shift_moves_by_up_to_an_eighth():
    found = set()
    for seed in seeds(60):
        shifted = np.asarray(random_shift(IMAGE, seed, 16))
        rows, columns = np.nonzero(shifted[..., 0])
        found.add((rows.min() - (15 - rows.max()), columns.min() - (15 - columns.max())))
        assert len(np.unique(rows)) >= 14
        kept = shifted[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        corners = [IMAGE[i, j] for i in (0, 1, 2) for j in (0, 1, 2)]
        assert any(np.array_equal(kept[0, 0], corner) for corner in corners)
    assert {row for row, _ in found} == {-2, -1, 0, 1, 2}


def test_crop_and_flip_sizes_range_and_seed():
    for seed in seeds(10):
        cropped = random_crop_and_flip(IMAGE, seed, 9)
        assert cropped.shape == (9, 9, 3)
        assert 1 <= np.min(cropped) <= np.max(cropped) <= 255
    first, again = (random_crop_and_flip(IMAGE, seeds(1)[0], 9) for _ in "ab")
    np.testing.assert_array_equal(first, again)


def test_half_of_the_images_are_flipped():
    ramp = tf.tile(tf.range(32, dtype=tf.float32)[None, :, None], (32, 1, 3))
    flipped = [
        bool(out[0, 0, 0] > out[0, -1, 0])
        for out in (random_crop_and_flip(ramp, seed, 8) for seed in seeds(100))
    ]
    assert 30 < sum(flipped) < 70
