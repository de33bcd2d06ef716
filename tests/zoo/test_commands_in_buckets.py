"""Commands that read a run in a bucket, and write there what they can."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.commands import fail

from zoo.cli.commands import COMMANDS
from zoo.cli.main import Verb


@pytest.fixture
def place(bucket, bucket_server, run) -> str:
    bucket_server.fill(run, f"{bucket[5:]}/run")
    return f"{bucket}/run"


@pytest.mark.slow
def test_predict(place, run, photo, capsys):
    printed = []
    for folder in (str(run), place):
        Verb("predict")(["--run", folder, photo])
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "%" in printed[0]


@pytest.mark.slow
def test_publish(place, run, tmp_path):
    for name, folder in (("here", str(run)), ("bucket", place)):
        Verb("publish")(["--run", folder, str(tmp_path / name / "digits")])
    here, there = (tmp_path / name / "digits" for name in ("here", "bucket"))
    names = sorted(path.name for path in here.iterdir())
    assert sorted(path.name for path in there.iterdir()) == names
    expected, received = (load_file(folder / "model.safetensors") for folder in (here, there))
    assert expected.keys() == received.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(received[name], value, name)


@pytest.mark.slow
def test_evaluate(place, run, bucket, bucket_server):
    Verb("evaluate")(["--run", place, "--output", f"{bucket}/evaluation"])
    written = json.loads(bucket_server.objects[f"{bucket[5:]}/evaluation/evaluation.json"].data)
    accuracy = json.loads((run / "metrics.json").read_text())["test"]["accuracy"]
    assert written["top1"] == pytest.approx(accuracy, abs=1e-4)


@pytest.mark.slow
def test_export(place, bucket, bucket_server, tmp_path, capsys):
    """The file by which a SavedModel is found comes last; an earlier version stays."""
    folder, since = "exports/lambda_resnet14/2", len(bucket_server.requests)
    bucket_server.write(f"{bucket[5:]}/exports/lambda_resnet14/1/saved_model.pb", b"x")
    Verb("export")(["--run", place, "--output", f"{bucket}/exports"])
    assert f"exported to {bucket}/{folder}, " in capsys.readouterr().out
    requests = bucket_server.requests[since:]
    written = [one.place for one in requests if one.operation == "upload"]
    assert written[-1] == f"{bucket[5:]}/{folder}/saved_model.pb"
    assert all(key.startswith(f"{bucket[5:]}/{folder}/") for key in written)
    for key in written:
        path = tmp_path / key.partition("/")[2]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bucket_server.objects[key].data)
    import tensorflow as tf

    assert "serving_default" in tf.saved_model.load(str(tmp_path / folder)).signatures


REFUSED = {
    "predict --run {run} {bucket}/photo.jpg": "photos: expected an image or a folder",
    "predict --run {run} {photo} --output {bucket}/a.json": "expected a path of this machine",
    "publish --run {run} {bucket}/published": "expected a folder of this machine",
    "maps {photo} --run {run} --beside {place} --output a.png": "expected a path of this machine",
    "serve {bucket}/exports": "expected a path of this machine",
    "evaluate --run s3://bucket/run": "expected a path, or one in a bucket, gs://BUCKET/FOLDER",
    "train --data.source tfrecord --data.dir s3://bucket/records --data.classes 4": "gs://BUCKET",
    "train --data.source tfrecord --data.dir hf://datasets/o/n --data.classes 4": "gs://BUCKET",
    "train --data.source image_folder --data.dir {bucket}/images": "images of this machine",
    "train --output_dir s3://bucket/run": "gs://BUCKET",
    "pseudo_label label --teacher {run} --input s3://bucket/* --output here": "gs://BUCKET",
}


@pytest.mark.parametrize("line", [line for line in REFUSED if line.split()[0] in COMMANDS])
def test_what_is_refused(line, place, run, photo, bucket, bucket_server, capsys):
    since = len(bucket_server.objects)
    words = line.format(run=run, place=place, photo=photo, bucket=bucket).split()
    error = fail(Verb(words[0]), capsys, *words[1:])
    assert REFUSED[line] in error
    assert len(bucket_server.objects) == since
