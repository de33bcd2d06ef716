"""Labels of one range."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from support.pseudo_labels import JOB
from support.record_files import jpeg

from zoo.data.crops import decode
from zoo.data.pseudo_records import parse, soft_label
from zoo.inference.source.run import Run
from zoo.pseudo_label.exclude import perceptual_hashes, thumbnail
from zoo.pseudo_label.inputs import Range
from zoo.pseudo_label.job import INDEX, Job, Task, read_index
from zoo.pseudo_label.teacher import load_teacher
from zoo.pseudo_label.worker import label_range, most_probable


@pytest.fixture
def task(teacher, tmp_path) -> Task:
    loaded = load_teacher(teacher)
    job = Job(teacher=loaded.id, class_names=loaded.class_names, **JOB)
    return Task(job, teacher, str(tmp_path / "labels"), 1, False)


@pytest.fixture
def images(tmp_path) -> Range:
    """Seven image files, of which two are unreadable."""
    for i in range(7):
        (tmp_path / f"{i}.jpg").write_bytes(jpeg(30 * i))
    (tmp_path / "2.jpg").write_bytes(jpeg(60)[:300])
    (tmp_path / "5.jpg").write_bytes(b"no image")
    return Range(tuple(str(tmp_path / f"{i}.jpg") for i in range(7)), 7)


def test_labels_are_the_outputs_of_the_teacher(task, images):
    counted = []
    label_range(task, 0, images, counted.append)
    assert counted == [4, 3]
    classifier = Run(Path(task.teacher)).load()
    records = tf.data.TFRecordDataset(str(task.path(0))).map(parse)
    found, index = [*records.as_numpy_iterator()], read_index(task.path(0, INDEX), 10)
    names = [record["name"].decode() for record in found]
    assert names == [images.files[i] for i in (0, 1, 3, 4, 6)]
    expected = classifier(names, top=10)
    for name, record, scores in zip(names, found, expected, strict=True):
        content = Path(name).read_bytes()
        assert record["image"] == content
        assert record["sha256"] == hashlib.sha256(content).digest()
        assert record["perceptual_hash"] == perceptual_hashes(thumbnail(decode(content))[None])
        assert record["teacher"].decode() == task.job.teacher
        assert record["classes"].tolist() == [score.index for score in scores]
        probabilities = [score.probability for score in scores]
        np.testing.assert_allclose(np.exp(record["log_probabilities"]), probabilities, rtol=1e-5)
        np.testing.assert_allclose(record["score"], probabilities[0], rtol=1e-5)
        assert (record["label"], record["rest"]) == (scores[0].index, 0)
    for name in ("label", "score", "perceptual_hash"):
        assert index[name].tolist() == [record[name] for record in found]
    assert [row.tobytes() for row in index["sha256"]] == [record["sha256"] for record in found]
    unreadable = index["unreadable"].tolist()
    assert [name.split(" (")[0] for name in unreadable] == [images.files[i] for i in (2, 5)]
    assert "not an image of JPEG, PNG" in unreadable[1]


def test_files_are_equal_to_the_byte_and_are_written_once(task, images):
    label_range(task, 0, images)
    paths = task.path(0), task.path(0, INDEX)
    first = [path.read_bytes() for path in paths]
    for gone in paths:  # as if killed between the two
        label_range(task, 0, Range(("missing.jpg",), 1))  # is done
        gone.unlink()
        label_range(task, 0, images)
        assert [path.read_bytes() for path in paths] == first
    names = {path.name for path in paths[0].parent.iterdir()}
    assert names == {f"labels-00000-of-00001.{suffix}" for suffix in ("npz", "tfrecord")}


def test_nothing_is_written_by_a_failure(task, images, monkeypatch):
    other = replace(task, job=task.job.model_copy(update={"teacher": "network-0"}))
    with pytest.raises(ValueError, match="teacher: expected network-0, as before"):
        label_range(other, 0, images)
    teacher = load_teacher(task.teacher)
    monkeypatch.setitem(vars(teacher), "predict", lambda images: np.full((4, 10), np.nan))
    with pytest.raises(ValueError, match="probabilities that are not finite"):
        label_range(task, 0, images)
    assert not list(Path(task.output).glob("*"))


@pytest.mark.parametrize(
    ("k", "temperature", "classes", "probabilities", "rest"),
    [
        (4, 1, [2, 1, 3, 0], [0.6, 0.2, 0.2, 0.0], 0),
        (2, 1, [2, 1], [0.6, 0.2], 0.2),
        (1, 0.5, [2], [0.36 / 0.44], 0.08 / 0.44),
    ],
)
def test_most_probable_classes(k, temperature, classes, probabilities, rest):
    found, logs, others = most_probable(np.array([[0, 0.2, 0.6, 0.2]], "f4"), k, temperature)
    assert found.tolist() == [classes]
    np.testing.assert_allclose(np.exp(logs), [probabilities], atol=1e-7)
    np.testing.assert_allclose(others, [rest], atol=1e-7)
    assert np.isfinite(logs).all()


def test_probability_of_the_rest_is_never_negative():
    """Rounding makes the sum of the others exceed 1 in a fifth of cases."""
    probabilities = np.random.default_rng(0).dirichlet(np.full(10, 0.05), 1000)
    _, logs, rest = most_probable(probabilities, 9, 1.0)
    assert (np.exp(logs).sum(-1) > 1).any()
    assert rest.min() == 0


def test_temperature_can_be_changed_later(task, images):
    warm = task.job.model_copy(update={"temperature": 2.0})
    warm = replace(task, job=warm, output=f"{task.output}-2")
    for one in (task, warm):
        label_range(one, 0, images)
    soft, expected = (
        [soft_label(parse(record), 10, at) for record in tf.data.TFRecordDataset(str(one.path(0)))]
        for one, at in ((task, 2.0), (warm, 1.0))
    )
    np.testing.assert_allclose(soft, expected, atol=1e-6)
