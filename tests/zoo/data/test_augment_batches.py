"""Mixtures of images and labels, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from zoo.config import DataConfig
from zoo.data.augment import beta, cut_mix, either, mix_up
from zoo.data.load import load_data

IMAGES = np.random.default_rng(0).uniform(1, 255, (4, 12, 8, 3)).astype("float32")
LABELS = np.eye(4, dtype="float32")


def seeds(count):
    return [tf.constant([i, 7], tf.int64) for i in range(count)]


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
    images = np.stack([np.zeros((32, 32, 3)), np.ones((32, 32, 3))]).astype("float32")
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


def batches(first_step=0, count=3, parts=1, **settings):
    config = DataConfig(batch_size=8, mixup=0.5, cutmix=1, random_erasing=0.5, **settings)
    data = load_data(config, 16, seed=3).train.batches(8, 10, first_step, parts=parts)
    return list(data.take(count).as_numpy_iterator())


def test_a_run_that_goes_on_sees_the_same_mixtures():
    whole = batches(count=3, color_jitter=0.4)
    for step in (1, 2):
        (images, labels), *_ = batches(step, 1, color_jitter=0.4)
        np.testing.assert_array_equal(images, whole[step][0])
        np.testing.assert_array_equal(labels, whole[step][1])
    np.testing.assert_allclose([labels.sum(-1) for _, labels in whole], 1, rtol=1e-5)
    assert any(((labels > 0) & (labels < 1)).any() for _, labels in whole)


def test_parts_are_those_of_the_mixed_batch():
    whole, parts = batches(count=1), batches(count=4, parts=4)
    for number in range(2):
        joined = np.concatenate([part[number] for part in parts])
        np.testing.assert_array_equal(joined, whole[0][number])
