"""Labels of one range."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from support.record_files import jpeg

from zoo.data.pseudo_records import parse, soft_label
from zoo.inference.source.run import Run
from zoo.pseudo_label.hashes import digest, perceptual_hashes
from zoo.pseudo_label.inputs import FileRange, RecordRange
from zoo.pseudo_label.job import INDEX, Task, read_index
from zoo.pseudo_label.teacher import load_teacher
from zoo.pseudo_label.worker import label_range, most_probable


@pytest.fixture
def task(teacher, tmp_path) -> Task:
    loaded = load_teacher(teacher)
    return Task(teacher, loaded.id, str(tmp_path / "labels"), 1, 10, 1.0, 4, False)


def records(task: Task) -> list[dict]:
    data = tf.data.TFRecordDataset(str(task.path(0))).map(parse)
    return list(data.as_numpy_iterator())


@pytest.fixture
def images(tmp_path) -> FileRange:
    """Seven image files, of which two are unreadable."""
    for i in range(7):
        (tmp_path / f"{i}.jpg").write_bytes(jpeg(30 * i))
    (tmp_path / "2.jpg").write_bytes(jpeg(60)[:300])
    (tmp_path / "5.jpg").write_bytes(b"no image")
    return FileRange(tuple(str(tmp_path / f"{i}.jpg") for i in range(7)))


def test_labels_are_the_outputs_of_the_teacher(task, images):
    label_range(task, 0, images)
    classifier = Run(Path(task.teacher)).load()
    found = records(task)
    assert [Path(record["name"].decode()).name for record in found] == [
        f"{i}.jpg" for i in (0, 1, 3, 4, 6)
    ]
    for record in found:
        path = Path(record["name"].decode())
        assert record["image"] == path.read_bytes()
        assert record["sha256"] == digest(record["image"])
        assert record["teacher"].decode() == task.teacher_id
        expected = classifier(path, top=10)
        assert record["classes"].tolist() == [score.index for score in expected]
        probabilities = [score.probability for score in expected]
        np.testing.assert_allclose(np.exp(record["log_probabilities"]), probabilities, rtol=1e-5)
        np.testing.assert_allclose(record["score"], probabilities[0], rtol=1e-5)
        assert (record["label"], record["rest"]) == (expected[0].index, 0)


def test_index_has_labels_and_hashes_without_images(task, images):
    label_range(task, 0, images)
    index, found = read_index(task.path(0, INDEX), 10), records(task)
    for name in ("label", "score", "perceptual_hash"):
        assert index[name].tolist() == [record[name] for record in found]
    assert [row.tobytes() for row in index["sha256"]] == [record["sha256"] for record in found]
    _, small = load_teacher(task.teacher).decode(found[1]["image"])
    assert perceptual_hashes(small[None]) == index["perceptual_hash"][1]


def test_unreadable_images_are_named(task, images):
    counted = []
    label_range(task, 0, images, counted.append)
    unreadable = read_index(task.path(0, INDEX), 10)["unreadable"].tolist()
    assert [name.split(" (")[0] for name in unreadable] == [images.files[i] for i in (2, 5)]
    assert "not an image of JPEG, PNG" in unreadable[1]
    assert counted == [4, 3]


def test_files_are_equal_to_the_byte_and_are_written_once(task, images):
    label_range(task, 0, images)
    paths = task.path(0), task.path(0, INDEX)
    first = [path.read_bytes() for path in paths]
    label_range(task, 0, FileRange(("missing.jpg",)))  # is done
    assert [path.read_bytes() for path in paths] == first
    paths[0].unlink()  # as if killed between the two
    label_range(task, 0, images)
    assert [path.read_bytes() for path in paths] == first
    assert sorted(path.name for path in paths[0].parent.iterdir()) == [
        "labels-00000-of-00001.npz",
        "labels-00000-of-00001.tfrecord",
    ]


def test_nothing_is_written_by_a_failure(task, images, monkeypatch):
    teacher = load_teacher(task.teacher)
    monkeypatch.setitem(vars(teacher), "predict", lambda images: np.full((4, 10), np.nan))
    with pytest.raises(ValueError, match="probabilities that are not finite"):
        label_range(task, 0, images)
    assert not list(Path(task.output).iterdir())


@pytest.mark.parametrize("skip", [False, True])
def test_damaged_file_is_refused_or_its_rest_left_out(task, shards, skip):
    path = shards / "train-0"
    path.write_bytes(path.read_bytes()[:-5])
    task = Task(**vars(task) | {"skip_damaged": skip})
    images = RecordRange(str(path), 0, 7)
    if skip:
        label_range(task, 0, images)
        assert len(records(task)) == 6
        assert "train-0, after 6 records" in read_index(task.path(0, INDEX), 10)["damaged"].item()
    else:
        with pytest.raises(ValueError, match=r"train-0, after 6 records .*; --damaged skip"):
            label_range(task, 0, images)
        assert not list(Path(task.output).iterdir())


def test_another_teacher_in_the_same_place_is_refused(task, images):
    task = Task(**vars(task) | {"teacher_id": "network-0"})
    with pytest.raises(ValueError, match="teacher: expected network-0, as before"):
        label_range(task, 0, images)


@pytest.mark.parametrize(
    ("k", "temperature", "classes", "probabilities", "rest"),
    [
        (4, 1, [2, 1, 3, 0], [0.6, 0.2, 0.2, 0.0], 0),
        (2, 1, [2, 1], [0.6, 0.2], 0.2),
        (1, 0.5, [2], [0.36 / 0.44], 0.08 / 0.44),
    ],
)
def test_most_probable_classes(k, temperature, classes, probabilities, rest):
    found = most_probable(np.array([[0, 0.2, 0.6, 0.2]], "f4"), k, temperature)
    assert found.classes.tolist() == [classes]
    np.testing.assert_allclose(np.exp(found.log_probabilities), [probabilities], atol=1e-7)
    np.testing.assert_allclose(found.rest, [rest], atol=1e-7)
    np.testing.assert_allclose(found.score, probabilities[0], atol=1e-7)
    assert np.isfinite(found.log_probabilities).all()


def test_probability_of_the_rest_is_never_negative():
    """Rounding makes the sum of the others exceed 1 in a fifth of cases."""
    probabilities = np.random.default_rng(0).dirichlet(np.full(10, 0.05), 1000)
    found = most_probable(probabilities, 9, 1.0)
    assert (np.exp(found.log_probabilities).sum(-1) > 1).any()
    assert found.rest.min() == 0


def test_temperature_can_be_changed_later(task, images):
    label_range(task, 0, images)
    soft = [soft_label(parse(record), 10, 2.0) for record in _serialized(task)]
    warm = Task(**vars(task) | {"temperature": 2.0, "output": f"{task.output}-2"})
    label_range(warm, 0, images)
    expected = [soft_label(parse(record), 10) for record in _serialized(warm)]
    np.testing.assert_allclose(soft, expected, atol=1e-6)


def _serialized(task: Task) -> list:
    return list(tf.data.TFRecordDataset(str(task.path(0))))
