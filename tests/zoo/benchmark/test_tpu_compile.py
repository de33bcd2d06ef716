"""`python -m zoo.benchmark tpu-compile`; compiling itself needs the optional jax and libtpu."""

import importlib.util
import json
import os
import subprocess
import sys
import time

import pytest

from zoo.benchmark import __main__ as command
from zoo.benchmark import tpu_compile
from zoo.benchmark.layer import MODES

INSTALLED = all(importlib.util.find_spec(package) for package in tpu_compile.PACKAGES)
NETWORK = "lambda_resnet14@32x2:dropout_rate=0.2"


def test_defaults_are_the_maps_of_the_docs():
    shapes = [cases[0].input_shape for cases in tpu_compile.Config().cases()]
    assert shapes == [(32, 56, 56, 64), (64, 14, 14, 256)]


def test_rows_are_compared_with_the_baseline(monkeypatch):
    answers = {
        "einsum": {"operations": 8e9, "bytes_accessed": 4e9, "temporary_bytes": 0, "seconds": 1.0},
        "conv": {"reason": "did not end in 60 s"},
        "auto": {"operations": 2e9, "bytes_accessed": 1e9, "temporary_bytes": 0, "seconds": 2.0},
    }
    monkeypatch.setattr(
        tpu_compile, "in_new_process", lambda _, case, *__, **___: answers[case.name]
    )
    config = tpu_compile.Config(implementations=("conv", "auto"))
    _, mode, cases = next(config.tables())
    rows = tpu_compile.compile_in_turn(cases, mode, config)
    tpu_compile.add_ratios(rows)
    assert [(row["implementation"], row["mode"]) for row in rows] == [
        (name, MODES[0]) for name in answers
    ]
    expected = {"operations": 0.25, "bytes_accessed": 0.25, "temporary_bytes": None}
    assert rows[0]["ratios"]["operations"] == 1
    assert rows[2]["ratios"] == expected
    assert rows[1]["reason"] == "did not end in 60 s"
    assert set(rows[1]["ratios"].values()) == {rows[1]["operations"]} == {None}
    tpu_compile.add_ratios(rows[1:])  # a baseline that failed
    assert set(rows[2]["ratios"].values()) == {None}


def test_every_step_has_its_table_and_its_row(monkeypatch, capsys, tmp_path):
    asked = []

    def call(function, case, mode, seconds):
        asked.append((function, case.identity, mode, seconds))
        if case.model == "lambda_resnet420":
            return {"reason": "did not end"}
        return dict.fromkeys(tpu_compile.ANALYSIS, 2e9)

    monkeypatch.setattr(tpu_compile, "in_new_process", call)
    monkeypatch.setattr(tpu_compile, "_environment", dict)
    monkeypatch.setattr(tpu_compile, "use_backend", lambda name: None)
    monkeypatch.setattr(tpu_compile, "PACKAGES", ())
    output = tmp_path / "tpu.json"
    models = "lambda_resnet50@160x128,lambda_resnet420@320x32"
    settings = f"--model {models} --seconds 60 --output {output}"
    command.main(["tpu-compile", *settings.split()])
    report = json.loads(output.read_text())
    first, second = report["rows"]
    assert (first["network"], first["batch"]) == ("lambda_resnet50@160", 128)
    assert (first["reason"], second["reason"]) == (None, "did not end")
    assert {second[key] for key in tpu_compile.ANALYSIS} == {None}
    identity = {k: first[k] for k in ("network", "batch")}
    assert asked[0] == (tpu_compile.compile_one, identity, "training", 60)
    assert report["hardware"]["target"].startswith("TPU")
    assert "- lambda_resnet420@320: did not end" in capsys.readouterr().out


def fails():
    raise ValueError("wrong\nand more")


def test_result_of_a_new_process():
    """Its result; or its error, its end or its delay as a reason."""
    run = tpu_compile.in_new_process
    assert run(dict, [("a", 1)], seconds=60) == {"a": 1}
    assert run(fails, seconds=60) == {"reason": "ValueError: wrong"}
    ended = run(os._exit, 3, seconds=60)
    assert ended == {"reason": "the compiler's process ended with exit code 3"}
    assert run(time.sleep, 60, seconds=1) == {"reason": "did not end in 1 s"}


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="needs the optional packages jax and libtpu")
@pytest.mark.parametrize(
    ("settings", "modes"),
    [
        ("--sizes 4x8x2 --scopes 3 --implementations auto", [MODES[0]] * 2 + [MODES[1]] * 2),
        (f"--model {NETWORK}", ["training"]),
    ],
)
def test_compiles_for_a_tpu_that_is_not_there(tmp_path, settings, modes):
    output = tmp_path / "tpu.json"
    benchmark = [sys.executable, "-m", "zoo.benchmark", "tpu-compile", *settings.split()]
    subprocess.run([*benchmark, "--output", str(output)], check=True)
    rows = json.loads(output.read_text())["rows"]
    assert [row["mode"] for row in rows] == modes
    for row in rows:
        assert row["reason"] is None
        assert row["operations"] > 0
        assert row["argument_bytes"] < row["hbm_bytes"] < tpu_compile.HBM_BYTES
    if modes == ["training"]:  # weights, momenta and averages in float32 at least
        assert rows[0]["argument_bytes"] > 3 * 4 * 855_544
