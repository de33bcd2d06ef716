"""Exports as a whole: versions, checks, removal of bad ones, every format."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_sample_images

from zoo.export import classification as export
from zoo.export import exporter
from zoo.export.__main__ import main
from zoo.export.classification import ExportConfig
from zoo.export.runtimes import run as run_export
from zoo.files import is_partial
from zoo.inference.classifier import predict
from zoo.inference.source.weights import Weights


def config(*arguments: object) -> ExportConfig:
    return ExportConfig.from_command_line([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def first(run, tmp_path_factory):
    """The first export of the run and where it lies."""
    return export.run(config("--run", run, "--output", tmp_path_factory.mktemp("exports")))


@pytest.fixture
def of_weights(weights, tmp_path):
    """Arguments for random weights of seven classes."""
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join("abcdefg"))
    return (
        *("--model", "lambda_resnet14", "--weights", weights),
        *("--labels", labels, "--image_size", 16, "--output", tmp_path / "exports"),
    )


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_last_line_is_the_accuracy_and_versions_go_up(run, first, capsys):
    assert first.parts[-2:] == ("lambda_resnet14", "1")
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    (first.parent / ".partial-1-2").mkdir()  # of a process that was killed
    main(["--run", str(run), "--output", str(first.parents[1])])
    accuracy = json.loads((run / "metrics.json").read_text())["test"]["accuracy"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == (f"test accuracy {accuracy:.4f} (360 held-out images, exported SavedModel)")
    for signature in ("serving_default", "images_uint8", "image_bytes", "features"):
        assert any(f"  {signature}: largest difference from Keras " in line for line in lines)
    assert sorted(path.name for path in first.parent.iterdir()) == ["1", "2"]
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*")} == before


def test_what_is_written(first):
    files = contents(first)
    for name in (
        "assets.extra/tf_serving_warmup_requests",
        "labels.txt",
        "model_card.md",
        "saved_model.pb",
    ):
        assert name in files
    assert (first / "labels.txt").read_text().split() == list("0123456789")
    assert "| Weights | run quick, not averaged |" in (first / "model_card.md").read_text()


# Killed after the export was written and compared, before it gets its name.
KILLED = """
import os, signal, sys
from pathlib import Path
from zoo.export.__main__ import main
from zoo.inference.source.weights import Weights
replace = os.replace
def killed(source, target):
    if Path(target).name == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = killed
main(sys.argv[1:])
"""


@pytest.mark.very_slow
def test_a_killed_export_leaves_nothing_behind(run, first, tmp_path):
    arguments = ["--run", str(run), "--output", str(tmp_path)]
    process = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], capture_output=True, text=True
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    folder = tmp_path / first.parent.name
    (partial,) = folder.iterdir()
    assert is_partial(partial)
    assert contents(partial / "1") == contents(first)
    main(arguments)
    assert [path.name for path in folder.iterdir()] == ["1"]
    assert contents(folder / "1") == contents(first)
    for name in ("labels.txt", "model_card.md"):
        assert (folder / "1" / name).read_text() == (first / name).read_text()


def test_an_export_that_answers_otherwise_is_removed(run, tmp_path, monkeypatch):
    def other(*arguments):
        outputs = run_export(*arguments)
        outputs["serving_default"]["probabilities"] += np.float32(1e-4)
        return outputs

    monkeypatch.setattr(exporter, "run", other)
    with pytest.raises(ValueError, match=r"from Keras by 1\.0e-04 in serving_default.*removed"):
        export.run(config("--run", run, "--output", tmp_path))
    assert list((tmp_path / "lambda_resnet14").iterdir()) == []


def test_variables_where_folding_rounds_too_much(of_weights, monkeypatch, capsys):
    factors = [1 + 2e-5, 1 + 3e-6]

    def rounded(*arguments):
        outputs, factor = run_export(*arguments), factors.pop(0)
        return {**outputs, "features": {n: a * factor for n, a in outputs["features"].items()}}

    monkeypatch.setattr(exporter, "run", rounded)
    folder = export.run(config(*of_weights))
    assert re.search(
        r"  differs by 2\..e-05 in features, more than 1e-05\n", capsys.readouterr().out
    )
    assert re.search(r"\| features \|.*\| [34]\..e-06 \|", (folder / "model_card.md").read_text())
    size = (folder / "variables" / "variables.data-00000-of-00001").stat().st_size
    assert size > 1_000_000  # 400 bytes where weights are constants
    images = np.full((1, 16, 16, 3), 99, "float32")
    loaded = tf.saved_model.load(str(folder))
    got = loaded.signatures["serving_default"](images=tf.constant(images))["probabilities"]
    arguments = ("lambda_resnet14", of_weights[3], list("abcdefg"), 16)
    expected = predict(Weights(*arguments).load().model, images)
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_exports_at_the_same_time_are_versions(tmp_path, monkeypatch):
    """All of them write before one is ready, and a later start leaves them alone."""
    writing = threading.Barrier(3)

    def write(folder):
        writing.wait(timeout=60)
        (folder / "written by").write_text(str(threading.get_ident()))
        writing.wait(timeout=60)

    monkeypatch.setattr(exporter, "run", lambda *_: {"features": {}})
    checks = {"features": exporter.Check({}, lambda outputs: 0.0)}
    an_export = exporter.Export("x", [], {}, "", "saved_model", {"x": write}, checks, 0)
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(an_export.to, tmp_path / "x") for _ in range(3)]
    folders = [call.result() for call in calls]
    assert sorted(folder.name for folder in folders) == ["1", "2", "3"]
    assert len({(folder / "written by").read_text() for folder in folders}) == 3
    assert sorted(path.name for path in folders[0].parent.iterdir()) == ["1", "2", "3"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format_name", "file", "options"),
    [
        # tests/zoo/export/test_onnx.py asks a network in this format, too.
        pytest.param("onnx", "model.onnx", (), marks=pytest.mark.very_slow),
        (
            "onnx",
            "model.onnx",
            ("--quantize", "float16", "--lambda_maps", "c5_block1_2_lambda", "--layout", "nchw"),
        ),
        ("openvino", "model.xml", ("--batch_size", 4)),
        ("litert", "model.tflite", ("--quantize", "int8", "--io_type", "uint8", "--batch_size", 1)),
        *(  # they differ in one option of the converter
            pytest.param("litert", "model.tflite", options, marks=pytest.mark.very_slow)
            for options in ((), ("--quantize", "float16"))
        ),
    ],
)
def test_formats(of_weights, tmp_path, capsys, format_name, file, options):
    if "int8" in options:
        for i, photo in enumerate(load_sample_images().images):
            (tmp_path / "photos").mkdir(exist_ok=True)
            Image.fromarray(photo).resize((80, 60)).save(tmp_path / "photos" / f"{i}.jpg")
        options += ("--calibration", tmp_path / "photos")
    folder = export.run(config(*of_weights, "--format", format_name, *options))
    assert folder == tmp_path / "exports" / "lambda_resnet14" / format_name / "1"
    assert {file, "labels.txt", "model_card.md"} <= set(contents(folder))
    printed = capsys.readouterr().out
    assert "  serving_default: largest difference from Keras " in printed
    assert "the same most probable class for " in printed
    _run_the_code_of_the_card(folder)


def _run_the_code_of_the_card(folder: Path) -> None:
    card = (folder / "model_card.md").read_text()
    code = card.split("```python\n")[1].split("```")[0]
    kind, shape = re.search(r"serving_default \| `images` (\w+) \((.*?)\)", card).groups()
    shape = [int(size) for size in shape.replace("batch", "1").split(",")]
    names: dict = {"images": np.zeros(shape, kind)}
    before = os.getcwd()
    os.chdir(folder)
    try:
        exec(code, names)
    finally:
        os.chdir(before)
    assert names["probabilities"].shape == (shape[0], 7)
    found = names["probabilities"].sum(-1) / (256 if kind == "uint8" else 1)
    np.testing.assert_allclose(found, 1, atol=0.02)


@pytest.mark.parametrize("output", ["labels.txt", "labels.txt/deeper", "/proc/exports"])
def test_output_that_cannot_be_written(of_weights, tmp_path, monkeypatch, output):
    monkeypatch.setattr(Weights, "load", lambda *_: pytest.fail("the model came first"))
    with pytest.raises(ValueError, match=r"output: expected a folder to write to\. "):
        export.run(config(*of_weights[:-1], tmp_path / output))


def test_weights_without_names_of_their_classes(weights, tmp_path):
    arguments = ("--model", "lambda_resnet14", "--weights", weights, "--output", tmp_path)
    with pytest.raises(ValueError, match=r"1000 classes of ImageNet \(--labels names others\)"):
        export.run(config(*arguments))
    assert list(tmp_path.iterdir()) == []


def test_a_run_whose_model_is_damaged(run, tmp_path):
    for name in ("config.yaml", "metrics.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    (tmp_path / "model.keras").write_bytes((run / "model.keras").read_bytes()[:5000])
    with pytest.raises(ValueError, match="expected an intact model"):
        export.run(config("--run", tmp_path, "--output", tmp_path / "exports"))
    assert not (tmp_path / "exports").exists()
