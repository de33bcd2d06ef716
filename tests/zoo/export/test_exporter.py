"""Exports as a whole: versions, checks, removal of bad ones, every format."""

import contextlib
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_images

from zoo.export import classification as export
from zoo.export import exporter, verify
from zoo.export.__main__ import main
from zoo.export.base import Options
from zoo.export.classification import ExportConfig
from zoo.inference.source.run import Run

PHOTOS = [Path(f"p/{i}.png") for i in range(10)]


def config(*arguments: object) -> ExportConfig:
    return ExportConfig.from_command_line([str(argument) for argument in arguments])


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
def test_last_line_is_the_accuracy_and_versions_go_up(run, tmp_path, capsys):
    first = export.run(config("--run", run, "--output", tmp_path))
    assert first == tmp_path / "lambda_resnet14" / "1"
    files = {"assets.extra/tf_serving_warmup_requests", "labels.txt", "model_card.md"}
    assert {*files, "saved_model.pb", "preprocessing.json"} <= set(contents(first))
    assert (first / "labels.txt").read_text().split() == list("0123456789")
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    (first.parent / ".partial-1-2").mkdir()  # of a process that was killed
    main(["--run", str(run), "--output", str(tmp_path)])
    accuracy = json.loads((run / "metrics.json").read_text())["test"]["accuracy"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == (f"test accuracy {accuracy:.4f} (360 held-out images, exported SavedModel)")
    for signature in ("serving_default", "images_uint8", "image_bytes", "features"):
        assert any(f"  {signature}: largest difference from Keras " in line for line in lines)
    assert sorted(path.name for path in first.parent.iterdir()) == ["1", "2"]
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*")} == before


@pytest.mark.parametrize(
    ("place", "options"),
    [
        ("", {}),
        ("", {"default_signature": "image_bytes"}),
        ("onnx", {"quantize": "float16", "batch_size": 2, "layout": "nchw"}),
        ("litert", {"quantize": "int8", "io_type": "uint8", "calibration": PHOTOS}),
        ("onnx", {"quantize": "int8", "activation_type": "int8", "calibration": PHOTOS}),
    ],
)
def test_folders_and_options(run, here, monkeypatch, place, options):
    Path("p").mkdir()
    for photo in PHOTOS:
        Image.new("L", (9, 9)).save(photo)
    calls = []

    def export_of(classifier, source, format_name, options):
        calls.append((classifier.name, source, format_name, options))
        return SimpleNamespace(to=lambda parent: parent)

    monkeypatch.setattr(verify, "export_of", export_of)
    given = options | ({"format": place} if place else {})
    given |= {"calibration": "p"} if "calibration" in options else {}
    arguments = [word for name, value in given.items() for word in (f"--{name}", value)]
    assert export.run(config("--run", run, *arguments)) == Path("exports/lambda_resnet14") / place
    assert calls == [("lambda_resnet14", Run(run), place or "saved_model", Options(**options))]


def an_export(*differences: float) -> tuple[exporter.Export, list[str]]:
    """An export with two ways to be written; outputs of one signature differ by some numbers."""
    written: list[str] = []

    def write(way: str, folder: Path) -> None:
        written.append(way)
        (folder / way).touch()

    left = iter(differences)
    checks = {"features": exporter.Check({"x": np.zeros((2, 3))}, lambda _: next(left))}
    checks["images"] = exporter.Check({}, lambda _: 0.0)
    writers = {way: partial(write, way) for way in ("folded", "variables")}
    one = exporter.Export("x", ["a"], {}, "", "saved_model", writers, checks, 1e-5)
    outputs = {"images": {}, "features": {"y": np.zeros((2, 4))}}
    return replace(one, run=lambda *_: outputs), written


def test_the_first_way_whose_outputs_are_equal_is_kept(tmp_path, capsys):
    one, written = an_export(1e-5)
    assert (one.to(tmp_path / "one") / "folded").exists()
    assert written == ["folded"]
    two, written = an_export(2e-5, 3e-6)
    folder = two.to(tmp_path / "two")
    assert written == ["folded", "variables"]
    assert [path.name for path in folder.iterdir() if path.suffix == ""] == ["variables"]
    assert "  differs by 2.0e-05 in features, more than 1e-05\n" in capsys.readouterr().out
    row = "| features | `x` float64 (batch, 3) | `y` float64 (batch, 4) | 3.0e-06 |"
    assert row in (folder / "model_card.md").read_text()
    none, _ = an_export(2e-5, 1e-4)
    with pytest.raises(ValueError, match=r"from Keras by 1\.0e-04 in features.*; it was removed"):
        none.to(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_way_with_a_loss_is_kept_if_it_is_the_last(tmp_path, capsys):
    for losses, kept in (
        (["", "x"], "folded"),
        (["x", ""], "variables"),
        (["x", "y"], "variables"),
    ):
        left = iter(losses)
        one, _ = an_export(0, 0)
        folder = replace(one, loss=lambda _, left=left: next(left)).to(tmp_path / "x")
        assert (folder / kept).exists()
        written = f"written as {kept}" in (folder / "model_card.md").read_text()
        assert written == (kept == "variables")
    output = capsys.readouterr().out
    assert output.count("\n  x\n") == 2
    assert output.count("\n  y\n") == 1


def test_outputs_that_are_not_finite_are_never_equal(tmp_path):
    """Nor are those of another shape, with int8 either, where every difference is allowed."""
    expected = {"y": np.zeros((1, 2))}
    check = exporter.Check({}, partial(exporter.largest_difference, expected))

    def of(y):
        run = lambda *_: {"images": {"y": np.array(y)}}  # noqa: E731
        allowed = verify.MAX_DIFFERENCE["int8"]
        return replace(an_export()[0], run=run, checks={"images": check}, allowed=allowed)

    message = "by outputs of images: missing, of other shapes, or n"
    for wrong in ([[0, np.nan]], [[0, -np.inf]], [[0]]):
        with pytest.raises(ValueError, match=message):
            of(wrong).to(tmp_path)
    assert of([[9.0, 0]]).to(tmp_path).name == "1"


def test_exports_at_the_same_time_are_versions(tmp_path):
    """All of them write before one is ready, and a later start leaves them alone."""
    writing = threading.Barrier(3)

    def write(folder):
        writing.wait(timeout=60)
        (folder / "written by").write_text(str(threading.get_ident()))
        writing.wait(timeout=60)

    one = replace(an_export(0, 0, 0)[0], writers={"x": write})
    with ThreadPoolExecutor(3) as pool:
        folders = list(pool.map(lambda _: one.to(tmp_path / "x"), range(3)))
    assert sorted(folder.name for folder in folders) == ["1", "2", "3"]
    assert len({(folder / "written by").read_text() for folder in folders}) == 3
    assert sorted(path.name for path in folders[0].parent.iterdir()) == ["1", "2", "3"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format_name", "options"),
    [
        ("onnx", "--quantize float16 --lambda_maps c5_block1_2_lambda --layout nchw"),
        ("openvino", "--batch_size 4"),
        ("onnx", "--quantize int8 --layout nchw"),
        ("onnx", "--quantize int8 --activation_type int8"),
        ("openvino", "--quantize int8"),
        ("litert", "--quantize int8 --io_type uint8 --batch_size 1"),
    ],
)
def test_formats(run, tmp_path, capsys, format_name, options):
    arguments = ["--format", format_name, *options.split(), "--output", tmp_path / "exports"]
    if "int8" in options:
        (tmp_path / "photos").mkdir()
        for i, photo in enumerate(5 * load_sample_images().images):  # of several sizes
            photo = Image.fromarray(photo).resize((80 + i, 60 - i))
            photo.save(tmp_path / "photos" / f"{i}.jpg")
        arguments += ["--calibration", tmp_path / "photos"]
    folder = export.run(config("--run", run, *arguments))
    assert folder == tmp_path / "exports" / "lambda_resnet14" / format_name / "1"
    printed = capsys.readouterr().out
    assert "  serving_default: largest difference from Keras " in printed
    assert "the same most probable class for " in printed
    if "int8" in options:
        speed = r"int8 takes \d+\.\d\d of float32's time here: .* ms for \d images"
        assert re.search(speed, printed)
        assert "test accuracy" in (folder / "model_card.md").read_text().split("in Keras")[0]
    _run_the_code_of_the_card(folder)


def _run_the_code_of_the_card(folder: Path) -> None:
    card = (folder / "model_card.md").read_text()
    code = card.split("```python\n")[1].split("```")[0]
    kind, shape = re.search(r"serving_default \| `images` (\w+) \((.*?)\)", card).groups()
    shape = [int(size) for size in shape.replace("batch", "1").split(",")]
    names: dict = {"images": np.zeros(shape, kind)}
    with contextlib.chdir(folder):
        exec(code, names)
    assert names["probabilities"].shape == (shape[0], 10)
    found = names["probabilities"].sum(-1) / (256 if kind == "uint8" else 1)
    np.testing.assert_allclose(found, 1, atol=0.02)
