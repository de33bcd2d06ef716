"""Selection against a plain one in NumPy: filter, order, copies, shards, images to leave out."""

import io
import shutil
from contextlib import nullcontext

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support.measure_pseudo_labels import select as select_made_scores

from zoo.data.pseudo_records import LABELS, PseudoLabel, read_selection
from zoo.files import write_json
from zoo.plots import pseudo_labels
from zoo.pseudo_label import selection
from zoo.pseudo_label.hashes import digest, perceptual_hashes, thumbnail
from zoo.pseudo_label.job import Job, read_job
from zoo.pseudo_label.select import SelectConfig, select

CLASSES, COUNT = 5, 120
NAMES = tuple("abcde")


def photo(number: int, quality: int = 95) -> bytes:
    """A smooth random image as a JPEG file."""
    coarse = np.random.default_rng(number).integers(0, 256, (6, 6, 3), "uint8")
    file = io.BytesIO()
    Image.fromarray(coarse).resize((48, 48), Image.Resampling.BICUBIC).save(
        file, "JPEG", quality=quality
    )
    return file.getvalue()


@pytest.fixture(scope="module")
def labeled():
    """Pseudo-labels of 120 images: class 4 is rare, scores have ties."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, CLASSES - 1, COUNT)
    classes[:3] = CLASSES - 1
    scores = rng.choice([0.2, 0.5, 0.6, 0.9], COUNT, p=[0.2, 0.3, 0.2, 0.3]).astype("float32")
    scores[:3] = 0.7
    labels = []
    for number, (label, score) in enumerate(zip(classes, scores, strict=True)):
        content = photo(number)
        small = thumbnail(tf.io.decode_jpeg(content)).numpy()
        labels.append(
            PseudoLabel(
                image=content,
                name=f"{number}.jpg",
                classes=[label],
                log_probabilities=[np.log(score)],
                rest=1 - score,
                score=score,
                teacher="teacher",
                sha256=digest(content),
                perceptual_hash=perceptual_hashes(small[None])[0],
            )
        )
    return labels


def write_labels(folder, labels, shards):
    """Writes a finished job of `label`."""
    folder.mkdir()
    for number in range(shards):
        part, name = labels[number::shards], LABELS.format(number, shards)
        with tf.io.TFRecordWriter(str(folder / f"{name}.tfrecord")) as file:
            for label in part:
                file.write(label.serialize())
        np.savez(
            folder / f"{name}.npz",
            label=np.array([label.classes[0] for label in part], "int32"),
            score=np.array([label.score for label in part], "float32"),
            sha256=np.array([list(label.sha256) for label in part], "uint8"),
            perceptual_hash=np.array([label.perceptual_hash for label in part], "int64"),
            unreadable=np.array([], "U"),
            damaged=np.array([], "U"),
        )
    job = Job(
        teacher="teacher",
        class_names=NAMES,
        top_k=1,
        temperature=1,
        batch_size=8,
        input="x",
        ranges=({},) * shards,
    )
    write_json(folder / "job.json", job.model_dump(mode="json"))
    return folder


def names_in(folder):
    """Names of the selected records, sorted."""
    found = []
    for file in read_selection(folder).files:
        for record in tf.data.TFRecordDataset(f"{folder}/{file.name}").as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            found.append(features["image/filename"].bytes_list.value[0].decode())
    return sorted(found)


def expected_names(labels, threshold, per_class, copies):
    found = []
    for number in range(CLASSES):
        own = [one for one in labels if one.classes[0] == number and one.score >= threshold]
        own.sort(key=lambda one: (-one.score, one.sha256))
        chosen = own[:per_class]
        if copies:
            chosen = [chosen[i % len(chosen)] for i in range(per_class)]
        found += [one.name for one in chosen]
    return sorted(found)


@pytest.fixture
def drawn(monkeypatch):
    """The rows of the figure, which is not drawn."""
    rows = []
    monkeypatch.setattr(pseudo_labels, "plot_extremes", lambda found, path: rows.extend(found))
    return rows


@pytest.mark.parametrize("shards", [1, 7])
@pytest.mark.parametrize(
    ("threshold", "per_class", "copies"), [(0.3, 10, True), (0.5, 8, False), (0.5, 1000, True)]
)
def test_selection(labeled, tmp_path, drawn, shards, threshold, per_class, copies):
    source = write_labels(tmp_path / "labels", labeled, shards)
    settings = {"threshold": threshold, "per_class": per_class, "copies": copies}
    select(SelectConfig(input=source, output=tmp_path / "selected", **settings))
    assert names_in(tmp_path / "selected") == expected_names(labeled, **settings)
    selection = read_selection(tmp_path / "selected")
    assert sum(selection.counts_before) == COUNT
    assert sum(selection.counts_after) == selection.count
    assert selection.left_out["threshold"] == sum(one.score < threshold for one in labeled)
    left = {path.name for path in (tmp_path / "selected").iterdir()}
    assert left >= {"select.json", "report.json"}
    assert "unfinished" not in left
    assert len(drawn) == 4
    for name, best, worst in drawn:
        own = [one for one in labeled if NAMES[one.classes[0]] == name and one.score >= threshold]
        own = sorted(own, key=lambda one: (-one.score, one.sha256))[:per_class]
        assert best == [(one.image, one.score) for one in own[:8]]
        assert worst == [(one.image, one.score) for one in own[-8:]]


@pytest.mark.usefixtures("drawn")
def test_known_images_are_left_out(labeled, tmp_path):
    """The same file by its digest, a re-encoded one by its perceptual hash."""
    (tmp_path / "known").mkdir()
    confident = [i for i, one in enumerate(labeled) if one.score > 0.8][:2]
    (tmp_path / "known" / "same.jpg").write_bytes(photo(confident[0]))
    (tmp_path / "known" / "again.jpg").write_bytes(photo(confident[1], quality=60))
    source = write_labels(tmp_path / "labels", labeled, 3)
    config = SelectConfig(
        input=source,
        output=tmp_path / "selected",
        per_class=1000,
        copies=False,
        exclude=[f"{tmp_path}/known/*"],
    )
    select(config)
    left_out = read_selection(tmp_path / "selected").left_out
    assert (left_out["digest"], left_out["perceptual_hash"]) == (1, 1)
    others = [one for i, one in enumerate(labeled) if i not in confident]
    assert names_in(tmp_path / "selected") == expected_names(others, 0.3, 1000, False)


def test_killed_selection_goes_on(labeled, tmp_path, monkeypatch):
    source = write_labels(tmp_path / "labels", labeled, 5)
    config = SelectConfig(input=source, output=tmp_path / "selected", per_class=10)
    write, seen = selection._write_shard, []

    def killed(*arguments):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(arguments[-1])
        write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(selection, "_write_shard", killed)
        with pytest.raises(KeyboardInterrupt):
            select(config)
    first = (tmp_path / "selected" / "train-00000-of-00005").stat().st_mtime_ns
    with pytest.raises(ValueError, match="another selection \\(other per_class\\)"):
        select(config.model_copy(update={"per_class": 9}))
    job = read_job(source)
    for of_job in (job, job.model_copy(update={"temperature": 2.0})):  # labeled anew
        other = config.model_copy(update={"runner": "direct", "beam": {"direct_num_workers": 2}})
        with nullcontext() if of_job is job else pytest.raises(ValueError, match="\\(other job\\)"):
            selection.start(other, of_job)
    select(config)
    assert (tmp_path / "selected" / "train-00000-of-00005").stat().st_mtime_ns == first
    assert names_in(tmp_path / "selected") == expected_names(labeled, 0.3, 10, True)
    assert (tmp_path / "selected" / "images.png").stat().st_size > 1000
    with pytest.raises(ValueError, match="expected a new folder"):
        select(config)


def test_bad_input(labeled, tmp_path):
    source = write_labels(tmp_path / "labels", labeled, 2)

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
    assert not list((tmp_path / "selected").iterdir())
    (source / "labels-00001-of-00002.tfrecord").unlink()
    assert "1 of 2 ranges are missing (1)" in message(output=tmp_path / "d")


@pytest.mark.parametrize(
    ("suffix", "damage", "received"),
    [
        ("npz", lambda path: path.write_bytes(path.read_bytes()[:-9]), "File is not a zip file"),
        ("npz", lambda path: path.write_bytes(b""), "no .npz file"),
        ("tfrecord", lambda path: path.write_bytes(path.read_bytes()[:-9]), "truncated record"),
        ("tfrecord", lambda path: path.write_bytes(b""), "fewer"),
        ("tfrecord", lambda path: path.write_bytes(b"other contents"), "record at 0"),
        (
            "tfrecord",
            lambda path: shutil.copy(path.with_stem("labels-00001-of-00002"), path),
            "other images",
        ),
        ("tfrecord", lambda path: (path.unlink(), path.mkdir()), "directory"),
    ],
)
def test_damaged_labels_are_named(labeled, tmp_path, suffix, damage, received):
    source = write_labels(tmp_path / "labels", labeled, 2)
    path = source / f"labels-00000-of-00002.{suffix}"
    damage(path)
    with pytest.raises(ValueError, match=rf"^input: expected .* in {path}; remove it") as error:
        select(SelectConfig(input=source, output=tmp_path / "selected"))
    assert received in str(error.value)
    assert not (tmp_path / "selected").exists()


@pytest.mark.parametrize("times", [1, 3])
def test_made_scores(tmp_path, times):
    """The measurement of docs/pseudo_labels.md, with few images."""
    found = select_made_scores(tmp_path, 10_000 * times, known=1_000)
    assert 0 < found["left_out"] <= 10
    assert 3_500 * times < found["selected"] < 5_000 * times
