"""Exports run in a process that has their runtime alone."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support import leftovers
from support.servables import pixels, probabilities

from zoo.export import runtimes
from zoo.export.base import DEFAULT
from zoo.export.formats import FORMATS
from zoo.export.runtimes import in_batches, run

FIXTURES = Path(__file__).parents[2] / "fixtures" / "exports"


def test_outputs_of_a_process_are_those_of_the_runtime():
    images = pixels(3, 16)
    found = run("onnx", FIXTURES / "onnx", {DEFAULT: {"images": images}})
    assert {key: list(arrays) for key, arrays in found.items()} == {DEFAULT: ["probabilities"]}
    expected = probabilities(FORMATS["onnx"].runtime(FIXTURES / "onnx"), images)
    np.testing.assert_allclose(found[DEFAULT]["probabilities"], expected, atol=1e-6)
    with pytest.raises(ValueError, match=r"(?s)with the runtime of its format alone: .*names"):
        run("onnx", FIXTURES / "onnx", {"serving_default": {"names": images}})


@pytest.mark.parametrize("name", FORMATS)
def test_the_file_of_a_format_needs_no_other_one_of_the_project(name):
    """Its process has none but `zoo.export.base`."""
    tree = ast.parse(Path(runtimes.__file__).with_name(f"{name}.py").read_text())
    modules = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    modules |= {
        alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names
    }
    ours = {str(name) for name in modules if str(name).startswith(("zoo", "lambda_keras"))}
    assert ours == {"zoo.export.base"}


@pytest.mark.parametrize(
    ("name", "module", "is_there"),
    [
        *(("onnx", name, False) for name in ("keras", "tf_keras", "tensorflow", "zoo")),
        ("saved_model", "lambda_keras", False),
        ("saved_model", "tensorflow", True),
        ("onnx", "json", True),
    ],
)
def test_modules_that_cannot_be_imported(tmp_path, name, module, is_there):
    form = tmp_path / f"{name}.py"
    form.write_text(f"import {module}\nclass Runtime:\n    def __init__(self, folder): pass\n")
    command = [sys.executable, "-P", runtimes.__file__, str(form), "folder", str(tmp_path), "0"]
    command += FORMATS[name].frameworks
    process = subprocess.run(command, capture_output=True, text=True)
    assert (process.returncode == 0) == is_there
    assert (f"import of {module} halted" in process.stderr) != is_there


@pytest.mark.needs("/proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_export_leaves_no_process(tmp_path, number):
    form = tmp_path / "form.py"
    started = tmp_path / "started"
    form.write_text(
        "import pathlib, time\nclass Runtime:\n    def __init__(self, folder):\n"
        "        pathlib.Path(folder).touch()\n        time.sleep(600)\n"
    )
    command = [sys.executable, "-P", runtimes.__file__, str(form), str(started), str(tmp_path), "0"]
    code = f"""
import signal, subprocess
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where tests run in the background
subprocess.run({command})"""
    environment = {**os.environ, "TOKEN": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as process:
        leftovers.wait(started.exists)
        process.send_signal(number)
    assert process.returncode == -number
    leftovers.wait(lambda: not leftovers.running(str(tmp_path)))


@pytest.mark.parametrize(
    ("count", "fixed", "sizes"),
    [(3, 0, [3]), (70, 0, [32, 32, 6]), (3, 1, [1, 1, 1]), (3, 4, [4]), (5, 2, [2, 2, 2])],
)
def test_batches_of_any_or_of_one_size(count, fixed, sizes):
    seen, images = [], np.arange(2.0 * count).reshape(count, 2)

    def call(signature, inputs):
        seen.append(len(inputs["images"]))
        return {signature: 2 * inputs["images"]}

    found = in_batches(SimpleNamespace(run=call), "x", {"images": images}, fixed)
    np.testing.assert_array_equal(found["x"], 2 * images)
    assert seen == sizes
