"""The command that labels images, in this process."""

import io
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from support.commands import fail
from support.damage import flip
from support.pseudo_labels import JOB, label_files
from support.record_files import jpeg

from zoo.data.pseudo_records import parse
from zoo.export.base import Options
from zoo.export.saved_model import SavedModel
from zoo.inference.source.run import Run
from zoo.model_card import write_labels
from zoo.pseudo_label import job, report
from zoo.pseudo_label.__main__ import main
from zoo.pseudo_label.teacher import load_teacher


def label(arguments: list[str], **changes: str) -> None:
    main(["label", *arguments, *(f"--{name}={value}" for name, value in changes.items())])


def read_report(folder: Path) -> dict:
    return json.loads((folder / "report.json").read_text())


def records(folder: Path) -> list[dict]:
    files = sorted(str(path) for path in folder.glob("labels-*.tfrecord"))
    return list(tf.data.TFRecordDataset(files).map(parse).as_numpy_iterator())


def test_images_become_records_and_a_report(by_files):
    folder = by_files / "labels"
    names = [f"labels-{i:05}-of-00003" for i in range(3)]
    assert {*label_files(folder)} == {
        f"{one}.{kind}" for one in names for kind in ("npz", "tfrecord")
    }
    found = records(folder)
    names = [Path(record["name"].decode()).stem for record in found]
    assert names == [f"{i:02}" for i in range(21) if i != 5]
    written = json.loads((folder / "job.json").read_text())
    assert written["teacher"] == found[0]["teacher"].decode() == "lambda_resnet14-e163ef8bf9bb"
    assert written["class_names"] == [str(digit) for digit in range(10)]
    assert [part["take"] for part in written["ranges"]] == [8, 8, 5]
    assert (written["top_k"], written["batch_size"]) == (10, 4)
    result = read_report(folder)
    last = result["last_command"]
    assert (result["images"], result["unreadable"], last["images"]) == (20, 1, 21)
    assert result["unreadable_images"][0].startswith(f"{by_files}/05.jpg (not an image")
    labels = np.bincount([record["label"] for record in found], minlength=10)
    assert list(result["classes"].values()) == labels.tolist()
    np.testing.assert_allclose(result["mean_score"], np.mean([one["score"] for one in found]))
    assert last["images_per_second"] == pytest.approx(21 / last["seconds"])
    assert (folder / "scores.png").stat().st_size > 1000


def test_killed_job_does_the_rest(teacher, by_files, labels, capsys):
    """With a kill's leftovers: finished ranges, an index without records, partial files."""
    words = f"--teacher {teacher} --input {by_files}/*.jpg --batch_size 4 --range_size 8"
    arguments = [*words.split(), "--output", str(labels)]
    first = label_files(labels)
    (labels / "labels-00000-of-00003.npz").unlink()  # of a finished range: it is labeled again
    (labels / "labels-00002-of-00003.tfrecord").unlink()
    (labels / ".partial-x-labels-00001-of-00003.tfrecord").mkdir()
    finished = labels / "labels-00001-of-00003.tfrecord"
    time = finished.stat().st_mtime_ns
    label(arguments)
    assert label_files(labels) == first
    assert finished.stat().st_mtime_ns == time
    assert not list(labels.glob(".partial*"))
    printed = capsys.readouterr().out
    for said in ("resumes: 1 of 3 ranges are done", "labeled 13 images in", "1 unreadable im"):
        assert said in printed
    report = read_report(labels)
    assert (report["images"], report["last_command"]["images"]) == (20, 13)
    label(arguments)
    assert "resumes: 3 of 3" in capsys.readouterr().out
    os.utime(by_files / "20.jpg", ns=(1, 1))
    with pytest.raises(ValueError, match=r"another job \(other sizes_and_times\)"):
        label(arguments)


@pytest.mark.parametrize(
    ("field", "value"),
    [("top_k", 3), ("temperature", 3.0), ("batch_size", 3), ("input", "3"), ("teacher", "3")],
)
def test_folder_of_another_job_is_refused(labels, field, value):
    own = job.Job.model_validate_json((labels / "job.json").read_bytes())
    job.start(labels, "job.json", own, "the labels of another job")
    other = own.model_copy(update={field: value})
    with pytest.raises(ValueError, match=f"holds the labels of another job .other {field}.; rep"):
        job.start(labels, "job.json", other, "the labels of another job")


@pytest.mark.parametrize(
    ("place", "part"),
    [
        ("notes", "output: expected a new folder. Received: 'notes' with other files"),
        ("notes/file.txt", "notes/file.txt is a file, not a folder"),
        ("damaged", "output: expected an intact job.json"),
    ],
)
def test_folder_of_something_else_is_refused(arguments, here, capsys, place, part):
    for name in ("notes/file.txt", "damaged/job.json"):
        Path(name).parent.mkdir()
        Path(name).write_text("{}")
    assert part in fail(main, capsys, "label", *arguments, "--output", place)


def test_bad_input_is_refused_before_the_teacher_is_loaded(arguments, no_model, capsys, tmp_path):
    line = fail(main, capsys, "label", *arguments, "--input", f"{tmp_path}/nothing/*")
    assert "input: expected TFRecord files or image files" in line
    assert not (tmp_path / "labels").exists()


INDEX = {"label": [3], "score": [0.5], "perceptual_hash": [0], "sha256": np.zeros((1, 32), "uint8")}
INDEX |= dict.fromkeys(("unreadable", "damaged"), np.array([], "U"))


def index_file(without: str = "", **changes) -> bytes:
    file = io.BytesIO()
    np.savez(file, **{key: value for key, value in (INDEX | changes).items() if key != without})
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "received"),
    [
        (b"", "no .npz file"),
        (index_file()[:-30], "File is not a zip file"),
        (index_file(without="label"), "label is not a file in the archive"),
        (index_file(label=[10]), "no labels of 10 classes"),
        (index_file(score=[np.nan]), "no labels of 10 classes"),
        (index_file(score=[0.5, 0.5]), "score of float64, (2,)"),
        (index_file(sha256=np.zeros((1, 16), "uint8")), "sha256 of uint8, (1, 16)"),
        (index_file(perceptual_hash=["a"]), "perceptual_hash of <U1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged_index_is_named(tmp_path, content, received):
    path = tmp_path / "labels.npz"
    path.write_bytes(content)
    expected = f"output: expected an intact index in {path}; remove"
    with pytest.raises(ValueError, match=expected) as error:
        job.read_index(path, 10)
    assert received in str(error.value)


def test_report_counts_known_scores(tmp_path, figures, capsys):
    for number, scores in enumerate(([0.5, 0.54, 0.56], [1.0])):
        labels = [2, 0, 2][: len(scores)]
        arrays = {"score": scores, "label": labels, "perceptual_hash": labels}
        arrays |= {"sha256": np.zeros((len(scores), 32), "uint8")}
        arrays |= {"unreadable": np.array([f"x{i}" for i in range(70)])}
        np.savez(tmp_path / f"labels-0000{number}-of-00002.npz", **INDEX | arrays)
    of = job.Job(teacher="digits-0", class_names=("a", "b", "c"), **JOB)
    report.write(tmp_path, job.Task(of, "", str(tmp_path), 2, False), 3, 1.5)
    found = read_report(tmp_path)
    scores = found["scores"]["images"]
    assert {i: n for i, n in enumerate(scores) if n} == {10: 2, 11: 1, 19: 1}
    assert found["classes"] == {"a": 1, "b": 0, "c": 3}
    assert found["mean_score"] == pytest.approx(0.65)
    assert (found["unreadable"], len(found["unreadable_images"])) == (140, 100)
    assert found["last_command"]["images_per_second"] == 2.0
    bars = [[bar.get_height() for bar in axis.patches] for axis in figures[-1].axes]
    assert bars == [scores, [1, 0, 3]]
    assert "digits-0: 4 images, mean score 0.6500" in capsys.readouterr().out


@pytest.mark.parametrize(("takes", "total"), [([3, 4], 7), ([3, -1], None)])
def test_progress_has_no_total_where_numbers_are_unknown(takes, total):
    with report.Meter(takes) as meter:
        meter.add(2)
        meter.add(1)
    (task,) = meter.tasks
    assert (task.total, task.completed, meter.images) == (total, 3, 3)


def test_damaged_file_may_be_left_out_later(arguments, shards, tmp_path, capsys):
    flip(shards / "train-1")  # which lengths do not show
    line = fail(main, capsys, "label", *arguments)
    assert "input: damaged file: " in line
    folder = tmp_path / "labels"
    assert "report.json" not in {path.name for path in folder.iterdir()}
    assert len(label_files(folder)) < 12
    label(arguments, damaged="skip")
    result = read_report(folder)
    assert 14 <= result["images"] < 21
    assert "train-1, after" in result["damaged_files"][0]
    assert "its rest was left out" in capsys.readouterr().out


SIGNATURES = ("images", "serving_default")


class Export(tf.Module):
    """Probabilities of three classes: shares of the channels."""

    @tf.function(input_signature=[tf.TensorSpec((None, 8, 8, 3), tf.float32, "images")])
    def images(self, images):
        sums = tf.reduce_sum(images, (1, 2))
        return {"probabilities": sums / tf.reduce_sum(sums, -1, keepdims=True)}


def test_saved_model_is_a_teacher(tmp_path):
    folder, module = tmp_path / "digits" / "7", Export()
    tf.saved_model.save(module, str(folder), dict.fromkeys(SIGNATURES, module.images))
    settings = {"image_size": 8, "crop_fraction": 0.5, "interpolation": "bilinear"}
    (folder / "preprocessing.json").write_text(json.dumps(settings))
    write_labels(folder, ["a", "b", "c"])
    teacher = load_teacher(str(folder))
    assert re.fullmatch("digits-[0-9a-f]{12}", teacher.id)
    assert (teacher.class_names, teacher.preprocessing.image_size) == (("a", "b", "c"), 8)
    pixels, small = teacher.decode(jpeg(0))
    assert (pixels.shape, small.shape) == ((8, 8, 3), (32, 32))
    expected = pixels.sum((0, 1)) / pixels.sum()
    np.testing.assert_allclose(teacher.predict(pixels[None]), expected[None], rtol=1e-5)
    other = shutil.copytree(folder, tmp_path / "short")
    write_labels(other, ["a", "b"])
    with pytest.raises(ValueError, match=r"of 3 classes. Received: 2 classes"):
        load_teacher(str(other))


@pytest.mark.slow
def test_exports_and_published_networks_are_teachers(teacher, tmp_path):
    """With the same outputs as the run."""
    classifier, run = Run(Path(teacher)).load(), load_teacher(teacher)
    export = tmp_path / "digits" / "1"
    SavedModel().write(classifier, export, Options())
    write_labels(export, classifier.class_names)
    size = classifier.image_size
    images = np.random.default_rng(0).uniform(0, 255, (4, size, size, 3)).astype("float32")
    other = load_teacher(str(export))
    np.testing.assert_allclose(other.predict(images), run.predict(images), atol=1e-6)
    published = load_teacher(str(Path(teacher).with_name("published_classifier")))
    assert len(published.class_names) == published.predict(images).shape[1]


@pytest.mark.slow
def test_output_in_a_bucket(arguments, bucket, tmp_path):
    label(arguments)
    label(arguments, output=f"{bucket}/labels")
    for name, content in label_files(tmp_path / "labels").items():
        with tf.io.gfile.GFile(f"{bucket}/labels/{name}", "rb") as file:
            assert file.read() == content
    label(arguments, output=f"{bucket}/labels")  # resumes, with nothing left
