"""`python -m zoo.benchmark tpu-compile`; compiling itself needs the optional jax and libtpu."""

import importlib.util
import json
import subprocess
import sys

import pytest

from zoo.benchmark import __main__ as command
from zoo.benchmark import fresh, tpu_compile
from zoo.benchmark.layer import MODES

INSTALLED = all(importlib.util.find_spec(package) for package in tpu_compile.PACKAGES["jax"])
NETWORK = "lambda_resnet14@32x2:dropout_rate=0.2"


def test_defaults_are_the_maps_of_the_docs_and_time_limits_longer_for_networks():
    config = tpu_compile.Config
    shapes = [subjects[0].input_shape for subjects in config().subjects()]
    assert shapes == [(32, 56, 56, 64), (64, 14, 14, 256)]
    assert config().limit == tpu_compile.SECONDS
    assert config(model=(NETWORK,)).limit == tpu_compile.MODEL_SECONDS
    assert config(model=(NETWORK,), seconds=5).limit == 5


def test_rows_are_compared_with_the_baseline(monkeypatch):
    answers = {
        "einsum": {"operations": 8e9, "bytes_accessed": 4e9, "temporary_bytes": 0, "seconds": 1.0},
        "conv": {"reason": "did not end in 60 s"},
        "auto": {"operations": 2e9, "bytes_accessed": 1e9, "temporary_bytes": 0, "seconds": 2.0},
    }
    monkeypatch.setattr(fresh, "call", lambda _, subject, *__, **___: answers[subject.name])
    config = tpu_compile.Config(implementations=("conv", "auto"))
    _, mode, subjects = next(config.tables())
    rows = tpu_compile.compile_in_turn(subjects, mode, config)
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


@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_every_step_has_its_table_and_its_row(monkeypatch, capsys, tmp_path, backend):
    columns = tpu_compile.COLUMNS[backend]
    asked = []

    def call(function, subject, mode, **options):
        asked.append((function, subject.identity, mode, options))
        if subject.model == "lambda_resnet420":
            return {"reason": "did not end"}
        return {column.key: 2e9 for column in columns}

    monkeypatch.setattr(fresh, "call", call)
    monkeypatch.setattr(tpu_compile, "_environment", dict)
    monkeypatch.setattr(tpu_compile, "use_backend", lambda name: None)
    monkeypatch.setitem(tpu_compile.PACKAGES, backend, ())
    output = tmp_path / "tpu.json"
    models = "lambda_resnet50@160x128,lambda_resnet420@320x32"
    settings = f"--backend {backend} --model {models} --seconds 60 --output {output}"
    command.main(["tpu-compile", *settings.split()])
    report = json.loads(output.read_text())
    first, second = report["rows"]
    assert (first["network"], first["batch"]) == ("lambda_resnet50@160", 128)
    assert (first["reason"], second["reason"]) == (None, "did not end")
    assert {second[column.key] for column in columns} == {None}
    identity, environment = {k: first[k] for k in ("network", "batch")}, {"KERAS_BACKEND": backend}
    options = {"environment": environment, "limits": fresh.Limits(seconds=60)}
    assert asked[0] == (tpu_compile.compile_one, identity, "training", options)
    assert report["hardware"]["target"].startswith("TPU")
    assert "- lambda_resnet420@320: did not end" in capsys.readouterr().out


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
