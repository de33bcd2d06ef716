"""RandAugment beside the Model Garden's, operation by operation."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import load_sample_images

from zoo.data.augment import operations, rand_augment

# The same operation in `official.vision.ops.augment`, whose draws are one sign or one center.
NAMES = """auto_contrast equalize invert rotate posterize solarize color contrast brightness
    sharpness shear_x shear_y translate_x translate_y cutout solarize_add"""
OFFICIAL = {name: name.title().replace("_", "") for name in NAMES.split()}


def seeds(count):
    return [tf.constant([0, i], tf.int64) for i in range(count)]


@pytest.fixture(scope="module")
def images():
    """A part of an image, noise, three values, and one."""
    random = np.random.default_rng(0)
    arrays = (
        load_sample_images().images[0][100:230, 100:197],
        random.integers(0, 256, (32, 32, 3)),
        random.integers(0, 3, (40, 30, 3)),
        np.full((20, 20, 3), 7),
    )
    return [tf.constant(array, tf.uint8) for array in arrays]


@pytest.mark.parametrize("name", OFFICIAL)
def test_operations_are_the_official_ones(images, monkeypatch, name):
    from official.vision.ops import augment

    assert list(operations(1.0, 128)) == list(OFFICIAL)
    for magnitude in (0.0, 1.0, 7.0, 10.0, 17.0):
        for size in (128, 64):
            ours = operations(magnitude / 10, size)[name]
            levels = augment.level_to_arg(40 * size / 128, 100 * size / 128)
            for image, seed in zip(images, seeds(len(images)), strict=True):
                draws = iter(
                    tf.random.stateless_uniform(
                        [], tf.random.fold_in(seed, axis), 0, image.shape[axis], tf.int32
                    )
                    if name == "cutout"
                    else 1 - tf.round(tf.random.stateless_uniform([], seed))  # 1 is positive
                    for axis in (0, 1)
                )
                with monkeypatch.context() as patch:
                    patch.setattr(tf.random, "uniform", lambda *_, draws=draws, **__: next(draws))
                    arguments = levels[OFFICIAL[name]](magnitude)
                    if OFFICIAL[name] in augment.REPLACE_FUNCS:
                        arguments = (*arguments, [128] * 3)
                    expected = augment.NAME_TO_FUNC[OFFICIAL[name]](image, *arguments)
                np.testing.assert_array_equal(ours(image, seed), expected)


def test_every_operation_is_as_likely_as_none():
    gray = tf.fill((8, 8, 3), 100.0)  # which each of these operations changes to its own value
    apply = tf.function(rand_augment(1, 10, 128), autograph=False)
    found = [float(apply(gray, seed)[0, 0, 0]) for seed in seeds(1700)]
    distinct = {value: found.count(value) for value in set(found)}
    # invert and solarize 155, brightness 190, solarize_add 210, posterize 96, cutout 128.
    assert distinct.pop(155.0) == pytest.approx(200, rel=0.25)
    for value in (190.0, 210.0, 96.0, 128.0):
        assert distinct.pop(value) == pytest.approx(100, rel=0.35)
    assert distinct.keys() == {100.0}


@pytest.mark.parametrize("name", ["rotate", "shear_x", "shear_y", "translate_x", "translate_y"])
def test_both_signs_are_as_likely(images, name):
    apply = operations(1.0, 32)[name]
    kinds = [apply(images[1], seed).numpy().tobytes() for seed in seeds(200)]
    assert len(set(kinds)) == 2
    assert kinds.count(kinds[0]) == pytest.approx(100, rel=0.3)


def test_layers_follow_the_seed_alone(images):
    image = tf.cast(images[1], tf.float32)
    apply = tf.function(rand_augment(2, 10, 32), autograph=False)
    first = [apply(image, seed) for seed in seeds(30)]
    tf.random.set_seed(7)
    for seed, changed in reversed(list(zip(seeds(30), first, strict=True))):
        np.testing.assert_array_equal(apply(image, seed), changed)
    assert len({changed.numpy().tobytes() for changed in first}) > 25
    assert all(0 <= np.min(changed) <= np.max(changed) <= 255 for changed in first)
    one = tf.function(rand_augment(1, 10, 32), autograph=False)
    kinds = {one(image, seed).numpy().tobytes() for seed in seeds(300)}
    assert len({changed.numpy().tobytes() for changed in first} - kinds) > 15
