"""Selection against a plain one in NumPy: filter, order, copies, shards, images to leave out."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support.pseudo_labels import JOB, png

from zoo.data.pseudo_records import LABELS, PseudoLabel, parse, read_selection
from zoo.files import write_json
from zoo.plots import pseudo_labels
from zoo.pseudo_label import selection
from zoo.pseudo_label.exclude import perceptual_hashes, thumbnail
from zoo.pseudo_label.job import Job
from zoo.pseudo_label.select import SelectConfig
from zoo.pseudo_label.select import run as select

CLASSES, COUNT = 5, 120
SECOND = "labels-00001-of-00005"
NAMES = tuple("abcde")


@pytest.fixture(scope="module")
def labeled():
    """Pseudo-labels of 120 images: class 4 is rare, scores have ties."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, CLASSES - 1, COUNT)
    classes[:3] = CLASSES - 1
    scores = rng.choice([0.2, 0.5, 0.6, 0.9], COUNT, p=[0.2, 0.3, 0.2, 0.3]).astype("float32")
    scores[:3] = 0.7
    coarse = rng.integers(0, 256, (COUNT, 6, 6, 3), "uint8")
    photos = [Image.fromarray(one).resize((48, 48), Image.Resampling.BICUBIC) for one in coarse]
    hashes = perceptual_hashes(np.stack([thumbnail(np.asarray(one)) for one in photos]))
    labels = []
    for number, (photo, label, score) in enumerate(zip(photos, classes, scores, strict=True)):
        file = png(np.asarray(photo))
        image = {"image": file, "name": str(number), "sha256": hashlib.sha256(file).digest()}
        found = {"classes": [label], "log_probabilities": [np.log(score)], "score": score}
        found |= {"rest": 1 - score, "teacher": "teacher", "perceptual_hash": hashes[number]}
        labels.append(PseudoLabel(**image, **found))
    return labels


@pytest.fixture
def source(labeled, tmp_path):
    return write_labels(tmp_path / "labels", labeled, 5)


def write_labels(folder, labels, shards):
    """Writes a finished job of `label`."""
    folder.mkdir()
    for number in range(shards):
        part, name = labels[number::shards], LABELS.format(number, shards)
        with tf.io.TFRecordWriter(str(folder / f"{name}.tfrecord")) as file:
            for label in part:
                file.write(label.serialize())
        columns = {
            "label": np.array([label.classes[0] for label in part], "int32"),
            "score": np.array([label.score for label in part], "float32"),
            "sha256": np.array([list(label.sha256) for label in part], "uint8"),
            "perceptual_hash": np.array([label.perceptual_hash for label in part], "int64"),
        }
        none = dict.fromkeys(("unreadable", "damaged"), np.array([], "U"))
        np.savez(folder / f"{name}.npz", **columns, **none)
    job = Job(teacher="teacher", class_names=NAMES, **JOB | {"ranges": ({},) * shards})
    write_json(folder / "job.json", job.model_dump(mode="json"))
    return folder


def numbers_in(folder):
    """Names of the selected records, those of each file in their order."""
    files = [f"{folder}/{file.name}" for file in read_selection(folder).files]
    records = tf.data.TFRecordDataset(files).map(parse).as_numpy_iterator()
    return [bytes(record["name"]).decode() for record in records]


def best_of(labels, number, threshold, per_class):
    own = [one for one in labels if one.classes[0] == number and one.score >= threshold]
    return sorted(own, key=lambda one: (-one.score, one.sha256))[:per_class]


def expected_names(labels, threshold, per_class, copies):
    found = []
    for number in range(CLASSES):
        best = best_of(labels, number, threshold, per_class)
        found += [best[i % len(best)].name for i in range(per_class if copies else len(best))]
    return sorted(found)


@pytest.fixture
def drawn(monkeypatch):
    """The rows of the figure, which is not drawn."""
    rows = []
    monkeypatch.setattr(pseudo_labels, "plot_extremes", lambda found, path: rows.extend(found))
    return rows


@pytest.mark.parametrize(
    ("shards", "threshold", "per_class", "copies"),
    [(7, 0.3, 10, True), (1, 0.5, 8, False), (3, 0.5, 40, True)],
)
def test_selection(labeled, tmp_path, drawn, shards, threshold, per_class, copies):
    """A score equal to the threshold is high enough."""
    source = write_labels(tmp_path / "labels", labeled, shards)
    output = tmp_path / "selected"
    settings = {"threshold": threshold, "per_class": per_class, "copies": copies}
    select(SelectConfig(input=source, output=output, **settings))
    names = numbers_in(output)
    assert sorted(names) == expected_names(labeled, **settings)
    if shards == 1:
        assert names == sorted(names, key=int)
    found, report = read_selection(output), json.loads((output / "report.json").read_text())
    counts = np.bincount([one.classes[0] for one in labeled], minlength=CLASSES).tolist()
    after = np.bincount([labeled[int(name)].classes[0] for name in names], minlength=CLASSES)
    assert (list(found.counts_before), list(found.counts_after)) == (counts, after.tolist())
    low = sum(one.score < threshold for one in labeled)
    assert found.left_out == {"threshold": low, "digest": 0, "perceptual_hash": 0}
    assert (report["images"], report["records"]) == (COUNT, len(names))
    assert report["selected"] == len(set(names))
    counts = dict.fromkeys(("images", "to_select", "selected"), 3)
    assert report["classes"]["e"] == counts | {"records": per_class if copies else 3}
    assert "unfinished" not in {path.name for path in output.iterdir()}
    assert len(drawn) == 4
    for name, best, worst in drawn:
        own = best_of(labeled, NAMES.index(name), threshold, per_class)
        assert best == [(one.image, one.score) for one in own[:8]]
        assert worst == [(one.image, one.score) for one in own[-8:]]


@pytest.mark.usefixtures("drawn")
def test_known_images_are_left_out(labeled, source, tmp_path):
    """The same file by its digest, a re-encoded one by its perceptual hash."""
    (tmp_path / "known").mkdir()
    confident = [i for i, one in enumerate(labeled) if one.score > 0.8][:2]
    same, again = (labeled[i].image for i in confident)
    (tmp_path / "known" / "same.png").write_bytes(same)
    pixels = tf.io.decode_png(again)
    (tmp_path / "known" / "again.jpg").write_bytes(tf.io.encode_jpeg(pixels, quality=70).numpy())
    settings = {"per_class": 1000, "copies": False, "exclude": [f"{tmp_path}/known/*"]}
    select(SelectConfig(input=source, output=tmp_path / "selected", **settings))
    left_out = read_selection(tmp_path / "selected").left_out
    assert (left_out["digest"], left_out["perceptual_hash"]) == (1, 1)
    others = [one for i, one in enumerate(labeled) if i not in confident]
    assert sorted(numbers_in(tmp_path / "selected")) == expected_names(others, 0.3, 1000, False)


def test_killed_selection_goes_on(labeled, source, tmp_path, monkeypatch, drawn):
    output = tmp_path / "selected"
    config = SelectConfig(input=source, output=output, per_class=10)
    write, seen = selection.write_shard, []

    def killed(*arguments):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(arguments[-1])
        write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(selection, "write_shard", killed)
        with pytest.raises(KeyboardInterrupt):
            select(config)
    first = (output / "train-00000-of-00005").stat().st_mtime_ns
    with pytest.raises(ValueError, match="another selection \\(other per_class\\)"):
        select(config.model_copy(update={"per_class": 9}))
    job = Job.model_validate_json((source / "job.json").read_bytes())
    other = config.model_copy(update={"runner": "direct", "beam": {"direct_num_workers": 2}})
    selection.start(other, job)
    with pytest.raises(ValueError, match=r"\(other job\)"):
        selection.start(other, job.model_copy(update={"temperature": 2.0}))  # labeled anew
    (output / ".partial-x-train-00004-of-00005").mkdir()
    select(config)
    assert (output / "train-00000-of-00005").stat().st_mtime_ns == first
    assert not list(output.glob(".partial*"))
    assert sorted(numbers_in(output)) == expected_names(labeled, 0.3, 10, True)
    assert [name for name, _, _ in drawn] == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="expected a new folder"):
        select(config)


def test_equal_scores_are_ordered_by_digest():
    """Of unsigned bytes."""
    fields = ("label", "score", "digest", "record", "ends", "counts")
    digest = np.array([2**31 + 9, 7, 2**31], "uint32")
    counts = np.array([[3]] * 5)
    arrays = [np.zeros(3, "int32"), np.full(3, 0.5, "f4"), digest, np.arange(3), [3], counts]
    candidates = selection.Candidates(**dict(zip(fields, arrays, strict=True)))
    choice = selection.choose(candidates, 2, True)
    assert choice.records.tolist() == [0, 1, 1]
    assert choice.extremes[0][0].tolist() == [1, 2]


def test_bad_input(source, tmp_path):
    def message(**settings):
        config = SelectConfig(**{"input": source, "output": tmp_path / "selected"} | settings)
        with pytest.raises(ValueError) as error:  # noqa: PT011
            select(config)
        return str(error.value)

    assert "with job.json" in message(input=tmp_path)
    assert "for every class. Received: none for 1 (e)" in message(threshold=0.8)
    assert not (tmp_path / "selected").exists()  # nothing is left of what was refused
    (tmp_path / "selected").mkdir()
    error = message(exclude=["nothing*"])
    assert error.startswith("exclude: expected TFRecord files or image files")
    assert error.endswith("matches none")
    assert "below the scores" in message(threshold=0.99)
    assert "none with --runner local" in message(beam={"direct_num_workers": 2})
    assert not list((tmp_path / "selected").iterdir())
    (source / f"{SECOND}.tfrecord").unlink()
    assert "1 of 5 ranges are missing (1)" in message(output=tmp_path / "d")


@pytest.mark.parametrize(
    ("suffix", "damage", "received"),
    [
        ("npz", lambda path: path.write_bytes(path.read_bytes()[:-9]), "File is not a zip file"),
        ("tfrecord", lambda path: path.write_bytes(path.read_bytes()[:-9]), "truncated record"),
        ("tfrecord", lambda path: path.write_bytes(b""), "fewer"),
        ("tfrecord", lambda path: shutil.copy(path.with_stem(SECOND), path), "oth"),
        ("tfrecord", lambda path: (path.unlink(), path.mkdir()), "directory"),
    ],
)
def test_damaged_labels_are_named(source, tmp_path, suffix, damage, received):
    path = source / f"labels-00000-of-00005.{suffix}"
    damage(path)
    with pytest.raises(ValueError, match=rf"^input: expected .* in {path}; remove it") as error:
        select(SelectConfig(input=source, output=tmp_path / "selected"))
    assert received in str(error.value)
    assert not (tmp_path / "selected").exists()
