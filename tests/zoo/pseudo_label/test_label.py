"""The command that labels images, in this process."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from support.commands import fail

from zoo.data.pseudo_records import parse
from zoo.export import saved_model
from zoo.inference.source.published import Published
from zoo.inference.source.run import Run
from zoo.model_card import write_labels
from zoo.pseudo_label.__main__ import main
from zoo.pseudo_label.job import read_index
from zoo.pseudo_label.meter import Meter
from zoo.pseudo_label.report import Totals


def label(arguments: list[str], **changes: str) -> None:
    main(["label", *arguments, *(f"--{name}={value}" for name, value in changes.items())])


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("labels-*"))}


def report(folder: Path) -> dict:
    return json.loads((folder / "report.json").read_text())


def records(folder: Path) -> list[dict]:
    files = sorted(str(path) for path in folder.glob("labels-*.tfrecord"))
    return list(tf.data.TFRecordDataset(files).map(parse).as_numpy_iterator())


def test_images_become_records_and_a_report(arguments, tmp_path, capsys):
    label(arguments)
    folder = tmp_path / "labels"
    assert sorted(contents(folder)) == [
        f"labels-{i:05}-of-00006.{suffix}" for i in range(6) for suffix in ("npz", "tfrecord")
    ]
    found = records(folder)
    assert [record["name"] for record in found[:5]] == [
        f"number {i} of train-0".encode() for i in range(5)
    ]
    job = json.loads((folder / "job.json").read_text())
    assert job["teacher"] == found[0]["teacher"].decode()
    assert job["class_names"] == [str(digit) for digit in range(10)]
    assert job["ranges"][1]["skip"] == 4
    result = report(folder)
    assert (result["images"], result["unreadable"], sum(result["classes"].values())) == (21, 0, 21)
    assert sum(result["scores"]["images"]) == 21
    labels = np.bincount([record["label"] for record in found], minlength=10)
    assert list(result["classes"].values()) == labels.tolist()
    np.testing.assert_allclose(result["mean_score"], np.mean([one["score"] for one in found]))
    assert result["last_command"]["images_per_second"] > 0
    assert (folder / "scores.png").stat().st_size > 1000
    printed = capsys.readouterr().out
    assert "21/21 images" in printed
    assert "labeled 21 images in" in printed


def test_killed_job_does_the_rest(arguments, tmp_path, capsys):
    label(arguments)
    folder = tmp_path / "labels"
    first = contents(folder)
    # A kill leaves the files of finished ranges, an index without records, and a partial file.
    for path in sorted(folder.glob("labels-*.tfrecord"))[2:]:
        path.unlink()
    (folder / "labels-00000-of-00006.npz").unlink()  # of a finished range: it is labeled again
    for number in (1, 3):  # the first is of a range that is not written again
        (folder / f".partial-x-labels-0000{number}-of-00006.tfrecord").mkdir()
    (folder / "report.json").unlink()
    finished = folder / "labels-00001-of-00006.tfrecord"
    time = finished.stat().st_mtime_ns
    capsys.readouterr()
    label(arguments)
    assert contents(folder) == first
    assert finished.stat().st_mtime_ns == time
    assert not list(folder.glob(".partial*"))
    assert "resumes: 1 of 6 ranges are done" in capsys.readouterr().out
    assert (report(folder)["images"], report(folder)["last_command"]["images"]) == (21, 18)
    label(arguments)
    assert "resumes: 6 of 6" in capsys.readouterr().out
    assert report(folder)["images"] == 21


@pytest.mark.parametrize(
    ("name", "value", "different"),
    [
        ("top_k", "3", "top_k"),
        ("temperature", "2", "temperature"),
        ("batch_size", "3", "batch_size"),
        ("range_size", "5", "ranges"),
        ("input", "shards/train-0", "input, ranges, sizes_and_times"),
    ],
)
def test_folder_of_another_job_is_refused(
    arguments, tmp_path, monkeypatch, capsys, name, value, different
):
    label(arguments)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "labels").iterdir()}
    monkeypatch.chdir(tmp_path)
    line = fail(main, monkeypatch, capsys, "label", *arguments, f"--{name}", value)
    assert f"holds the labels of another job (other {different})" in line
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_changed_images_are_refused(arguments, shards, tmp_path, monkeypatch, capsys):
    label(arguments)
    (tmp_path / "labels" / "labels-00005-of-00006.tfrecord").unlink()
    os.utime(shards / "train-2", ns=(1, 1))
    line = fail(main, monkeypatch, capsys, "label", *arguments)
    assert "holds the labels of another job (other sizes_and_times)" in line


def index_file(**changes) -> bytes:
    file = io.BytesIO()
    index = {"label": [3], "score": [0.5], "sha256": np.zeros((1, 32), "uint8")}
    index |= {"perceptual_hash": [0], "unreadable": np.array([], "U"), "damaged": np.array([], "U")}
    np.savez(
        file, **{name: value for name, value in (index | changes).items() if value is not None}
    )
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "received"),
    [
        (b"", "no .npz file"),
        (index_file()[:-30], "File is not a zip file"),
        (b"text", "no .npz file"),
        (index_file(label=None), "label is not a file in the archive"),
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
    with pytest.raises(
        ValueError, match=f"output: expected an intact index in {path}; remove"
    ) as error:
        read_index(path, 10)
    assert received in str(error.value)


def test_scores_are_counted_in_bins_from_0_to_1():
    totals = Totals(np.zeros(3, "int64"))
    index = {"label": np.array([2, 0, 2, 2]), "score": np.array([0.5, 0.54, 0.56, 1.0])}
    totals.add(index | {"unreadable": np.array(["a"]), "damaged": np.array([], "U")})
    assert {i: n for i, n in enumerate(totals.scores.tolist()) if n} == {10: 2, 11: 1, 19: 1}
    assert totals.classes.tolist() == [1, 0, 3]


@pytest.mark.parametrize(("takes", "total"), [([3, 4], 7), ([3, -1], None)])
def test_progress_has_no_total_where_numbers_are_unknown(takes, total):
    (task,) = Meter(takes)._progress.tasks
    assert task.total == total


@pytest.mark.parametrize(
    ("place", "part"),
    [
        ("notes", "output: expected a new folder. Received: 'notes' with other files"),
        ("notes/file.txt", "notes/file.txt is a file, not a folder"),
        ("damaged", "output: expected an intact job.json"),
    ],
)
def test_folder_of_something_else_is_refused(arguments, tmp_path, monkeypatch, capsys, place, part):
    monkeypatch.chdir(tmp_path)
    for name in ("notes/file.txt", "damaged/job.json"):
        Path(name).parent.mkdir()
        Path(name).write_text("{}")
    assert part in fail(main, monkeypatch, capsys, "label", *arguments, "--output", place)


def test_bad_input_is_refused_before_the_teacher_is_loaded(
    arguments, no_model, monkeypatch, capsys, tmp_path
):
    pattern = f"{tmp_path}/nothing/*"
    line = fail(main, monkeypatch, capsys, "label", *arguments, "--input", pattern)
    assert "input: expected TFRecord files or image files" in line
    assert not (tmp_path / "labels").exists()


def test_damaged_file_may_be_left_out_later(arguments, shards, tmp_path, monkeypatch, capsys):
    path = shards / "train-1"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1  # which lengths do not show
    path.write_bytes(content)
    line = fail(main, monkeypatch, capsys, "label", *arguments)
    assert "input: damaged file: " in line
    folder = tmp_path / "labels"
    assert "report.json" not in {path.name for path in folder.iterdir()}
    assert len(contents(folder)) < 12
    label(arguments, damaged="skip")
    result = report(folder)
    assert 14 <= result["images"] < 21
    assert "train-1, after" in result["damaged_files"][0]
    assert "its rest was left out" in capsys.readouterr().out


def test_image_files_of_which_some_are_unreadable(teacher, photos, tmp_path, capsys):
    (photos / "red" / "0.jpg").write_bytes(b"no image")
    label(["--teacher", teacher, "--input", f"{photos}/*/*", "--output", str(tmp_path / "labels")])
    result = report(tmp_path / "labels")
    assert (result["images"], result["unreadable"]) == (19, 1)
    (named,) = result["unreadable_images"]
    assert named.startswith(f"{photos}/red/0.jpg (not an image")
    assert "1 unreadable images: " in capsys.readouterr().out


def test_saved_model_gives_the_same_labels(teacher, arguments, tmp_path):
    label(arguments)
    classifier = Run(Path(teacher)).load()
    export = tmp_path / "exports" / "digits" / "1"
    saved_model.write(classifier, export)
    write_labels(export, classifier.class_names)
    label(arguments, teacher=str(export), output=str(tmp_path / "other"))
    one, other = records(tmp_path / "labels"), records(tmp_path / "other")
    assert other[0]["teacher"].startswith(b"digits-")
    for ours, theirs in zip(one, other, strict=True):
        assert ours["image"] == theirs["image"]
        assert ours["label"] == theirs["label"]
        np.testing.assert_allclose(ours["score"], theirs["score"], rtol=1e-5)


def test_published_network_is_a_teacher(teacher, arguments, tmp_path):
    place = Path(teacher).with_name("published_classifier")
    label(arguments, teacher=str(place))
    classifier = Published(str(place)).load()
    found = records(tmp_path / "labels")
    image = tmp_path / "0.jpg"
    image.write_bytes(found[0]["image"])
    assert classifier(image, 1)[0].index == found[0]["label"]


def test_output_in_a_bucket(arguments, bucket, tmp_path):
    label(arguments)
    label(arguments, output=f"{bucket}/labels")
    for name, content in contents(tmp_path / "labels").items():
        with tf.io.gfile.GFile(f"{bucket}/labels/{name}", "rb") as file:
            assert file.read() == content
    label(arguments, output=f"{bucket}/labels")  # resumes, with nothing left


def test_help_names_the_verbs(capsys):
    with pytest.raises(SystemExit):
        main([])
    printed = capsys.readouterr().out
    assert all(f"  {verb} " in printed for verb in ("label", "select"))
