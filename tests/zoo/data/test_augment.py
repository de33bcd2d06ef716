"""Random changes of images and batches, against NumPy and the Model Garden."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import load_sample_images

from zoo.data.augment import (
    beta,
    color_jitter,
    cut_mix,
    either,
    mix_up,
    operations,
    rand_augment,
    random_erasing,
    random_shift,
    random_window,
    sharpness,
)

IMAGE = tf.constant(np.random.default_rng(0).uniform(1, 255, (16, 16, 3)).astype("float32"))


def seeds(count):
    return [tf.constant([0, i], tf.int64) for i in range(count)]


def test_shift_moves_by_up_to_an_eighth():
    found = set()
    for seed in seeds(60):
        shifted = np.asarray(random_shift(IMAGE, seed, 16, 0.125))
        rows, columns = np.nonzero(shifted[..., 0])
        found.add((rows.min() - (15 - rows.max()), columns.min() - (15 - columns.max())))
        assert len(np.unique(rows)) >= 14
        kept = shifted[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        corners = [IMAGE[i, j] for i in (0, 1, 2) for j in (0, 1, 2)]
        assert any(np.array_equal(kept[0, 0], corner) for corner in corners)
    assert {row for row, _ in found} == {-2, -1, 0, 1, 2}


def test_windows_are_those_of_imagenet_training():
    shape = tf.constant([300, 400, 3])
    windows = np.stack([random_window(shape, seed) for seed in seeds(200)])
    *_, height, width = windows.T
    assert (windows[:, :2] >= 0).all()
    assert (windows[:, :2] + windows[:, 2:] <= [300, 400]).all()
    areas, ratios = height * width / 120_000, width / height
    assert 0.07 < areas.min() < 0.15
    assert 0.8 < areas.max() <= 1
    assert 0.74 < ratios.min() < 0.85
    assert 1.2 < ratios.max() < 1.35
    np.testing.assert_array_equal(random_window(shape, seeds(3)[2]), windows[2])


GREY = np.array([0.2989, 0.587, 0.114], "float32")


def test_colour_jitter_is_that_of_numpy():
    for seed in seeds(20):
        one, two, three = tf.random.stateless_uniform([3], seed, 0.6, 1.4).numpy()
        expected = np.clip(np.asarray(IMAGE) * one, 0, 255)
        mean = (expected @ GREY).mean()
        expected = np.clip(mean + (expected - mean) * two, 0, 255)
        grey = (expected @ GREY)[..., None]
        expected = np.clip(grey + (expected - grey) * three, 0, 255)
        np.testing.assert_allclose(color_jitter(IMAGE, seed, 0.4), expected, rtol=1e-4, atol=1e-2)


def test_erased_windows_are_as_large_as_in_the_paper():
    image = tf.ones((60, 40, 3)) * 300.0  # no noise is so bright
    apply = tf.function(lambda seed: random_erasing(image, seed, 0.5), autograph=False)
    areas, ratios, erased = [], [], 0
    ever = np.zeros((60, 40), bool)
    for seed in seeds(300):
        changed = apply(seed).numpy() != 300
        np.testing.assert_array_equal(changed.any(-1), changed.all(-1))
        rows, columns = changed.any((1, 2)), changed.any((0, 2))
        np.testing.assert_array_equal(changed[..., 0], rows[:, None] & columns[None, :])
        ever |= changed[..., 0]
        if changed.any():
            erased += 1
            areas.append(changed[..., 0].mean())
            ratios.append(rows.sum() / columns.sum())
    assert 0.42 < erased / 300 < 0.58
    assert ever.any(1).all()  # windows reach every border
    assert ever.any(0).all()
    assert 0.01 < min(areas) < 0.05
    assert 0.25 < max(areas) < 0.36
    assert 0.25 < min(ratios) < 0.5
    assert 2 < max(ratios) < 4
    noise = random_erasing(image, seeds(300)[250], 1.0).numpy()
    noise = noise[noise != 300]
    assert noise.std() == pytest.approx(255 / np.sqrt(12), rel=0.15)
    np.testing.assert_array_equal(random_erasing(image, seeds(1)[0], 1e-9), image)


# Mixtures of images and labels.
IMAGES = np.random.default_rng(0).uniform(1, 255, (4, 12, 8, 3)).astype("float32")
LABELS = np.eye(4, dtype="float32")


@pytest.mark.parametrize("alpha", [0.1, 1.0, 4.0])
def test_proportions_are_those_of_the_beta_distribution(alpha):
    draw = tf.function(lambda seed: beta(seed, alpha), autograph=False)
    drawn = np.array([draw(seed) for seed in seeds(1500)])
    assert ((drawn >= 0) & (drawn <= 1)).all()
    assert drawn.mean() == pytest.approx(0.5, abs=0.04)
    assert drawn.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.1)


def test_mix_up_adds_images_and_labels_in_one_proportion():
    for seed in seeds(5):
        images, labels = mix_up(IMAGES, LABELS, seed, 1.0)
        kept = float(labels[0, 0])
        assert kept == pytest.approx(float(beta(seed, 1.0)))
        np.testing.assert_allclose(labels, kept * LABELS + (1 - kept) * LABELS[::-1], atol=1e-6)
        np.testing.assert_allclose(images, kept * IMAGES + (1 - kept) * IMAGES[::-1], rtol=1e-5)


def test_cut_mix_puts_one_window_into_every_image():
    sizes = set()
    for seed in seeds(60):
        images, labels = (np.asarray(value) for value in cut_mix(IMAGES, LABELS, seed, 1.0))
        other = (images == IMAGES[::-1]).all(-1)
        assert ((images == IMAGES).all(-1) ^ other).all()
        assert (other == other[0]).all()
        rows, columns = other[0].any(1), other[0].any(0)
        np.testing.assert_array_equal(other[0], rows[:, None] & columns[None, :])
        for inside in (rows, columns):
            assert np.abs(np.diff(np.r_[0, inside, 0].astype(int))).sum() in (0, 2)  # no holes
        kept = 1 - other[0].mean()
        np.testing.assert_allclose(labels, kept * LABELS + (1 - kept) * LABELS[::-1], atol=1e-6)
        asked = np.array([12, 8]) * np.sqrt(1 - float(beta(seed, 1.0)))
        assert rows.sum() <= asked[0]
        assert columns.sum() <= asked[1]
        sizes.add((rows.sum(), columns.sum()))
    assert len(sizes) > 15


def test_rows_and_columns_of_windows_are_independent():
    images = tf.stack([tf.zeros((32, 32, 3)), tf.ones((32, 32, 3))])
    cut = tf.function(lambda seed: cut_mix(images, LABELS[:2, :2], seed, 1.0)[0], autograph=False)
    windows = [np.asarray(cut(seed))[0, ..., 0] for seed in seeds(200)]
    centers = [np.argwhere(window).mean(0) for window in windows if window.any()]
    assert len(centers) > 150
    assert abs(np.corrcoef(np.transpose(centers))[0, 1]) < 0.3  # 0.07 is one standard deviation


def test_both_come_as_often():
    mix = tf.function(either(1.0, 1.0), autograph=False)
    cut = 0
    for seed in seeds(100):
        images, _ = mix(IMAGES, LABELS, seed)
        again, _ = mix(IMAGES, LABELS, seed)
        np.testing.assert_array_equal(images, again)
        cut += np.isin(np.asarray(images), IMAGES).all()
    assert 30 < cut < 70
    assert either(None, None) is None
    images, _ = either(None, 1.0)(IMAGES, LABELS, seeds(1)[0])
    assert np.isin(np.asarray(images), IMAGES).all()
    images, _ = either(1.0, None)(IMAGES, LABELS, seeds(1)[0])
    assert not np.isin(np.asarray(images), IMAGES).all()


# RandAugment.
# The same operation in `official.vision.ops.augment`, whose draws are one sign or one center.
NAMES = """auto_contrast equalize invert rotate posterize solarize color contrast brightness
    sharpness shear_x shear_y translate_x translate_y cutout solarize_add"""
OFFICIAL = {name: name.title().replace("_", "") for name in NAMES.split()}


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
                received = ours(image, seed).numpy()
                if name == "sharpness":  # theirs takes some whole numbers for less, in float32
                    whole = weighted_sums(image.numpy()) % 13 == 0
                    apart = abs(np.subtract(received, expected, dtype="int"))
                    assert apart.max() <= 0.18 * magnitude + 1
                    received = np.where(whole, expected, received)
                np.testing.assert_array_equal(received, expected)


def weighted_sums(image):
    """Of each pixel and its neighbors, as `sharpness` weighs them; those of the border wrap."""
    values = image.astype("int64")
    steps = np.subtract([*np.ndindex(3, 3)], 1)
    return 4 * values + sum(np.roll(values, step, (0, 1)) for step in steps)


def test_sharpness_is_that_of_whole_numbers(images):
    for image in images:
        values = image.numpy().astype("float32")
        smooth = (weighted_sums(image.numpy()) // 13).astype("float32")
        for factor in np.float32([0.1, 1.0, 1.9, 2.8]):
            expected = np.clip(smooth + factor * (values - smooth), 0, 255).astype("uint8")
            for border in np.s_[0], np.s_[-1], np.s_[:, 0], np.s_[:, -1]:
                expected[border] = values[border]
            np.testing.assert_array_equal(sharpness(image, factor), expected)


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
