"""Training steps for a TPU that is not there; compiling them needs the optional jax and libtpu."""

import importlib.util
import json
import subprocess
import sys

import pytest

from zoo.benchmark import fresh, tpu_compile, tpu_step

INSTALLED = all(importlib.util.find_spec(package) for package in tpu_compile.PACKAGES["jax"])
STEPS = [tpu_step.Step("lambda_resnet50@160", 128), tpu_step.Step("lambda_resnet420@320", 32)]


@pytest.mark.parametrize(
    "text", ["lambda_resnet50", "lambda_resnet50@160", "lambda_resnet50x8", "lambda_resnet50@160x0"]
)
def test_text_of_a_step(text):
    with pytest.raises(ValueError, match="expected NAME@SIZExBATCH"):
        tpu_step.Step.parse(text)


@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_every_step_has_its_line_and_its_row(monkeypatch, capsys, backend):
    figures = dict.fromkeys(tpu_step.FIGURES[backend], 2e9)
    asked = []

    def call(module, request, environment):
        asked.append((module, request, environment))
        return {"reason": "did not compile"} if "420" in request["network"] else figures

    monkeypatch.setattr(fresh, "call", call)
    rows = []
    tpu_step.print_rows(STEPS, backend, "mixed_bfloat16", 60, rows.append)
    assert [row["network"] for row in rows] == [step.network for step in STEPS]
    assert rows[0]["reason"] is None
    assert {rows[1][name] for name in figures} == {None}
    assert asked[0] == (
        tpu_step.__name__,
        {"network": STEPS[0].network, "batch": 128, "dtype": "mixed_bfloat16", "seconds": 60},
        {"KERAS_BACKEND": backend},
    )
    head, compiled, failed = capsys.readouterr().out.splitlines()
    assert len(head.split()) <= len(compiled.split()) + 3  # "arg. GB" and others are two words
    assert failed.split(maxsplit=2) == ["lambda_resnet420@320", "-", "did not compile"]


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="needs the optional packages jax and libtpu")
def test_compiles_for_a_tpu_that_is_not_there(tmp_path):
    output, model = tmp_path / "tpu.json", "lambda_resnet14@32x2:dropout_rate=0.2"
    command = [sys.executable, "-m", "zoo.benchmark", "tpu-compile", "--model", model]
    subprocess.run([*command, "--output", str(output)], check=True)
    (row,) = json.loads(output.read_text())["rows"]
    assert row["reason"] is None
    # Weights, momenta and averages in float32 at least, and activations.
    assert row["argument_bytes"] > 3 * 4 * 855_544
    assert row["temporary_bytes"] > 0
    assert row["hbm_bytes"] < tpu_step.HBM_BYTES
