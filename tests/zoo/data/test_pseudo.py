"""Batches of labeled and pseudo-labeled images."""

import json
import shutil

import numpy as np
import pytest
from support.pseudo_labels import write_selection

from zoo.config import DataConfig, TrainConfig
from zoo.data import pseudo_records
from zoo.data.load import load_data
from zoo.data.pseudo import OWN_SEEDS, with_pseudo_labels
from zoo.devices import Host

SIZE, BATCH, CLASSES = 8, 4, 10
COUNT = 50  # pseudo-labeled images, of one gray level each: its number
SMOOTHING = 0.1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pseudo-labeled images whose brightness is their number, with soft labels."""
    folder = tmp_path_factory.mktemp("selection") / "selected"
    images = np.arange(COUNT, dtype="uint8")[:, None, None, None] * np.ones((8, 8, 3), "uint8")
    probabilities = np.full((COUNT, CLASSES), 0.03)
    probabilities[np.arange(COUNT), np.arange(COUNT) % CLASSES] = 0.73
    write_selection(folder, images, probabilities, [str(i) for i in range(CLASSES)])
    return folder


def load(folder, smoothing=SMOOTHING, augment=False, **pseudo):
    settings = {"batch_size": BATCH, "augment": augment, "pseudo": {"dir": folder, **pseudo}}
    config = DataConfig.model_validate(settings)
    data = load_data(config, SIZE, seed=3)
    return with_pseudo_labels(data, config, SIZE, 3, smoothing).train


def batches(train, steps, first_step=0, host=Host(), parts=1):  # noqa: B008
    stream = train.batches(BATCH, CLASSES, first_step, host, parts).take(steps * parts)
    images, labels = zip(*stream.as_numpy_iterator(), strict=True)
    return np.stack(images), np.stack(labels)


def is_pseudo(images):
    """Whether images are of one gray level, as no digit is."""
    return np.ptp(images[..., 0], axis=(-1, -2)) < 1e-6


@pytest.mark.parametrize(("ratio", "expected"), [(1, "lplplplp"), (3, "plpp" * 4), (0.5, "lpllpl")])
def test_kinds_alternate_in_proportion(folder, ratio, expected):
    images, labels = batches(load(folder, ratio=ratio), 5)
    for kinds in is_pseudo(images):
        assert "".join(np.where(kinds, "p", "l")) == expected
    np.testing.assert_allclose(labels.sum(-1), 1, atol=1e-6)


def test_labels(folder):
    images, labels = batches(load(folder, ratio=3), 5)
    pseudo = is_pseudo(images)
    np.testing.assert_allclose(labels[pseudo].max(-1), 0.73, atol=1e-6)
    np.testing.assert_allclose(labels[pseudo].min(-1), 0.03, atol=1e-6)
    smoothed = 1 - SMOOTHING + SMOOTHING / CLASSES
    np.testing.assert_allclose(labels[~pseudo].max(-1), smoothed, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "highest"),
    [({"labels": "hard"}, 1.0), ({"temperature": 2.0}, 0.73**0.5 / (0.73**0.5 + 9 * 0.03**0.5))],
)
def test_hard_and_softened_labels(folder, settings, highest):
    images, labels = batches(load(folder, **settings), 2)
    np.testing.assert_allclose(labels[is_pseudo(images)].max(-1), highest, rtol=1e-5)


def test_every_pseudo_labeled_image_is_read(folder):
    images, _ = batches(load(folder, ratio=3), 4)
    seen = images[is_pseudo(images)][:, 0, 0, 0]
    assert len(np.unique(seen)) == 48  # the first epoch of 50 images in batches of 12


def test_stream_can_be_entered_at_any_step(folder):
    images, labels = batches(load(folder, augment=True), 9)
    for first_step in (1, 5):
        rest, rest_labels = batches(load(folder, augment=True), 9 - first_step, first_step)
        np.testing.assert_array_equal(rest, images[first_step:])
        np.testing.assert_array_equal(rest_labels, labels[first_step:])


def test_parts_and_hosts_divide_the_batch(folder):
    images, labels = batches(load(folder, ratio=3), 3)
    parts, _ = batches(load(folder, ratio=3), 3, parts=2)
    np.testing.assert_array_equal(parts.reshape(images.shape), images)
    for index in (0, 1):
        own, own_labels = batches(load(folder, ratio=3), 3, host=Host(index, 2))
        np.testing.assert_array_equal(own, np.split(images, 2, axis=1)[index])
        np.testing.assert_array_equal(own_labels, np.split(labels, 2, axis=1)[index])


def test_pseudo_labeled_images_have_random_numbers_of_their_own(folder):
    train = load(folder)
    assert train.seed == 3
    assert train.pseudo.images.seed == 3 + OWN_SEEDS


@pytest.mark.parametrize(
    ("damage", "read"),
    [
        (lambda content: content[:-5] + b"?" + content[-4:], 2**30),
        (lambda content: content[:200] + b"?" + content[201:], 0),  # the first record of each file
        (lambda content: bytes(len(content)), 0),
    ],
)
def test_damaged_records_are_found_before_training(folder, tmp_path, monkeypatch, damage, read):
    shutil.copytree(folder, tmp_path / "selected")
    path = tmp_path / "selected" / "train-00001-of-00003"
    path.write_bytes(damage(path.read_bytes()))
    monkeypatch.setattr(pseudo_records, "READ", read)
    with pytest.raises(ValueError, match=rf"dir: expected .* in {path}.*damaged: corrupted record"):
        load(tmp_path / "selected")


def test_records_of_other_numbers_are_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "selected")
    description = tmp_path / "selected" / "select.json"
    text = description.read_text()
    description.write_text(text.replace('"records": 17', '"records": 18', 1))
    with pytest.raises(ValueError, match=r"expected 50 records .*\. Received: 51"):
        load(tmp_path / "selected")
    content = json.loads(description.read_text())
    content["counts_after"][0] += 1
    description.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"expected 18 .*train-00000-of-00003\. Received: 17"):
        load(tmp_path / "selected")


def test_other_classes_are_refused(folder, tmp_path):
    write_selection(
        tmp_path / "other", np.zeros((4, 8, 8, 3), "uint8"), np.eye(2)[[0, 1, 0, 1]], "ab"
    )
    with pytest.raises(ValueError, match=r"10 classes of the labeled images\. Received: 2"):
        load(tmp_path / "other")


def test_a_batch_larger_than_the_selection_is_refused(folder):
    with pytest.raises(ValueError, match="at most 50 pseudo-labeled images in a batch"):
        load(folder, ratio=20)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pseudo": {"ratio": 0}}, "greater than 0"),
        ({"pseudo": {"ratio": 2}}, "ratio needs dir"),
        ({"pseudo": {"dir": "x", "ratio": 0.3}}, "whole number of pseudo-labeled images"),
        ({"pseudo": {"dir": "x"}, "class_weights": "balanced"}, "expected no data.class_weights"),
        ({"pseudo": {"dir": "x", "labels": "hard", "temperature": 2}}, "needs labels=soft"),
    ],
)
def test_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(data={"batch_size": BATCH, **settings})
