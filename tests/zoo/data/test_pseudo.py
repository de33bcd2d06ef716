"""Batches of labeled and pseudo-labeled images."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from support.arrays import stacked
from support.pseudo_labels import write_selection

from zoo.config import DataConfig
from zoo.data import pseudo_records
from zoo.data.load import TrainingImages, load_data
from zoo.data.pseudo import OWN_SEEDS, WithPseudoLabels, with_pseudo_labels
from zoo.data.sources.base import IndexedSource
from zoo.devices import ONLY_HOST, Host

SIZE, BATCH, CLASSES = 8, 4, 10
COUNT = 50  # pseudo-labeled images, of one gray level each: its number
SMOOTHING = 0.1


def constant(records, seeds):
    """Pixels of the numbers of records, by the seeds of their augmentation."""
    pixels = tf.concat([records["image"][:, None], seeds], 1)[:, None, None]
    images = tf.ensure_shape(tf.cast(pixels, tf.float32), [None, 1, 1, 3])
    return images, records["image"] >= 0


@pytest.fixture
def made_up():
    """Creates training images of pixels that tell their number, from 1000 pseudo-labeled ones."""

    def source(first, labels):
        return IndexedSource(np.arange(first, first + COUNT), labels, np.full(COUNT, "name"))

    def create(ratio):
        labels = np.arange(COUNT) % CLASSES
        pseudo = TrainingImages(source(1000, labels), constant, 4)
        own = {"pseudo": pseudo, "ratio": ratio, "label_smoothing": SMOOTHING}
        return WithPseudoLabels(source=source(0, labels), read_images=constant, seed=3, **own)

    return create


def read(train, steps, first_step=0, host=ONLY_HOST, parts=1):
    stream = train.batches(BATCH, CLASSES, first_step, host, parts, normalize=False)
    images, labels = stacked(stream, steps * parts)
    return images[:, :, 0, 0], labels


@pytest.mark.parametrize(("ratio", "expected"), [(1, "lplplplp"), (3, "plpp" * 4), (0.5, "lpllpl")])
def test_kinds_alternate_in_proportion(made_up, ratio, expected):
    train = made_up(ratio)
    assert (train.step_size(BATCH), train.steps_per_epoch(BATCH)) == (len(expected), 12)
    images, labels = read(train, 3)
    pseudo = images[..., 0] >= 1000
    assert ["".join(np.where(row, "p", "l")) for row in pseudo] == [expected] * 3
    np.testing.assert_array_equal(images[..., 1], np.where(pseudo, 4, 3))
    assert images[pseudo][:, 2].tolist() == list(range(pseudo.sum()))  # numbers of their own
    smoothed = np.where(pseudo, 0, SMOOTHING)[..., None]
    one_hot = np.eye(CLASSES)[images[..., 0].astype(int) % CLASSES]
    np.testing.assert_allclose(labels, one_hot * (1 - smoothed) + smoothed / CLASSES, atol=1e-6)


def test_parts_hosts_and_later_steps_are_of_the_same_batches(made_up):
    train = made_up(3)
    images, labels = read(train, 4)
    parts, _ = read(train, 4, parts=2)
    np.testing.assert_array_equal(parts.reshape(images.shape), images)
    for index in (0, 1):
        own, own_labels = read(train, 3, 1, Host(index, 2))
        np.testing.assert_array_equal(own, np.split(images[1:], 2, axis=1)[index])
        np.testing.assert_array_equal(own_labels, np.split(labels[1:], 2, axis=1)[index])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pseudo-labeled images whose brightness is their number, with soft labels."""
    folder = tmp_path_factory.mktemp("selection") / "selected"
    images = np.arange(COUNT, dtype="uint8")[:, None, None, None] * np.ones((8, 8, 3), "uint8")
    probabilities = np.full((COUNT, CLASSES), 0.03)
    probabilities[np.arange(COUNT), np.arange(COUNT) % CLASSES] = 0.73
    write_selection(folder, images, probabilities, [str(i) for i in range(CLASSES)])
    return folder


def load(folder, **pseudo):
    settings = {"batch_size": BATCH, "augment": False, "pseudo": {"dir": folder, **pseudo}}
    config = DataConfig.model_validate(settings)
    data = load_data(config, SIZE, seed=3)
    return with_pseudo_labels(data, config, SIZE, 3, SMOOTHING).train


@pytest.mark.parametrize(
    ("settings", "highest"),
    [
        ({"labels": "hard"}, 1.0),
        ({"temperature": 2.0}, 0.73**0.5 / (0.73**0.5 + 9 * 0.03**0.5)),
        ({"ratio": 3}, 0.73),
    ],
)
def test_images_and_labels_of_a_folder(folder, settings, highest):
    train = load(folder, **settings)
    assert (train.seed, train.pseudo.seed, train.count) == (3, 3 + OWN_SEEDS, 1437)
    assert train.ratio == settings.get("ratio", 3)
    assert train.files == [f"{folder}/train-{i:05}-of-00003" for i in range(3)]
    images, labels = map(np.concatenate, stacked(train.batches(BATCH, CLASSES), 4))
    pseudo = np.ptp(images[..., 0], axis=(-1, -2)) < 1e-6  # of one gray level, as no digit is
    assert pseudo.sum() == 48
    levels = images[pseudo][:, 0, 0, 0] * 0.229 * 255 + 0.485 * 255
    assert len({*levels.round()}) == 48  # an epoch of 50 images in batches of 12
    np.testing.assert_array_equal(labels[pseudo].argmax(-1), levels.round() % CLASSES)
    np.testing.assert_allclose(labels[pseudo].max(-1), highest, rtol=1e-5)
    np.testing.assert_allclose(labels.sum(-1), 1, atol=1e-6)
    assert levels.round().tolist() != sorted(levels.round())


@pytest.mark.parametrize(
    ("damage", "whole"),
    [
        (lambda content: content[:-5] + b"?" + content[-4:], True),
        (lambda content: content[:200] + b"?" + content[201:], False),  # in the first record
        (lambda content: bytes(len(content)), False),
    ],
)
def test_damaged_records_are_found_before_training(folder, tmp_path, monkeypatch, damage, whole):
    """If there are many, the first of each file is read."""
    shutil.copytree(folder, tmp_path / "selected")
    path = tmp_path / "selected" / "train-00001-of-00003"
    path.write_bytes(damage(path.read_bytes()))
    size = sum(file.stat().st_size for file in path.parent.glob("train-*"))
    monkeypatch.setattr(pseudo_records, "READ", size - (not whole))
    with pytest.raises(ValueError, match=rf"dir: expected .* in {path}.*damaged: corrupted record"):
        load(tmp_path / "selected")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"records": 1}, r"expected 50 records .*\. Received: 51"),
        ({"records": 1, "more": 1}, r"expected 18 .*train-00000-of-00003\. Received: 17"),
        ({"class_names": ["a", "b"]}, r"10 classes of the labeled images\. Received: 2"),
    ],
)
def test_other_selections_are_refused(folder, tmp_path, changes, message):
    shutil.copytree(folder, tmp_path / "selected")
    path = tmp_path / "selected" / "select.json"
    content = json.loads(path.read_text())
    content["counts_after"][0] += changes.get("more", 0)
    content["files"][0]["records"] += changes.get("records", 0)
    content["class_names"] = changes.get("class_names", content["class_names"])
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "selected")


def test_labels_of_other_classes_and_large_batches_are_refused(folder):
    selection = pseudo_records.read_selection(folder)
    pseudo_records.check_records(folder, selection)
    names = selection.class_names[:9]
    with pytest.raises(ValueError, match=r"00000-of-00003\. Received: labels of other classes"):
        pseudo_records.check_records(folder, selection.model_copy(update={"class_names": names}))
    assert load(folder, ratio=12.5).step_size(BATCH) == 54
    with pytest.raises(ValueError, match="at most 50 pseudo-labeled images in a batch"):
        load(folder, ratio=12.75)
