"""`python -m zoo.benchmark layer`: table, JSON and picture; nothing is said about speed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from lambda_keras.layers.lambda_layer import CHOICES
from zoo.benchmark import __main__ as command
from zoo.benchmark import layer
from zoo.benchmark.cases import MODES, Case
from zoo.cli.run import BACKENDS, run_command

ROOT = Path(__file__).parents[3]
QUICK = ["--sizes", "4x8x2,8x8x2", "--scopes", "3", "--repeats", "2", "--min_ms", "0.1"]


@pytest.fixture(autouse=True)
def small_matrices(monkeypatch):
    monkeypatch.setattr(layer, "CPU_MATRIX", 64)


def test_table_json_and_picture(tmp_path, capsys):
    output = tmp_path / "new" / "layer.json"
    command.main(["layer", *QUICK, "--output", str(output)])
    printed = capsys.readouterr().out
    report = json.loads(output.read_text())
    assert {"cpu", "cores", "accelerator"} <= set(report["hardware"])
    assert {"python", "keras", "numpy", "tensorflow", "lambda_keras"} <= set(report["versions"])
    assert report["settings"]["repeats"] == 2
    assert report["command"].startswith("python -m zoo.benchmark layer --sizes 4x8x2,8x8x2")
    assert report["date"] > "2020"
    assert report["matrix_peak_gflops"] > 0
    for size in (4, 8):
        rows = [row for row in report["rows"] if row["size"] == size]
        assert {row["implementation"] for row in rows} == set(CHOICES["implementation"])
        assert rows[0]["implementation"] == "einsum"
        for row in rows:
            assert row["implementation"] in printed
            for mode in MODES:
                figures = row[mode]
                assert figures["reason"] is None
                assert len(figures["rounds_ms"]) == 2
                assert min(figures["rounds_ms"]) <= figures["ms"] <= max(figures["rounds_ms"])
                base = rows[0][mode]["ms"]
                assert figures["speedup"] == pytest.approx(base / figures["ms"])
                assert figures["peak_share"] > 0
                assert figures["temporary_bytes"] is None
        for mode in MODES:
            best = max(row[mode]["of_best"] for row in rows if row["implementation"] != "auto")
            assert best == 1
    with Image.open(output.with_suffix(".png")) as picture:
        assert picture.width > picture.height > 300


def test_what_would_not_fit_is_left_out(capsys):
    command.main(["layer", *QUICK, "--dense_limit_gb", "1e-4", "--xla", "true"])
    table = capsys.readouterr().out
    small, large = table.split("8x8, depth 8")
    assert "more than the limit" not in small
    assert "- einsum, forward: its embeddings alone would take 0.0 GB" in large
    einsum = next(line for line in large.splitlines() if line.startswith("einsum"))
    assert set(einsum.split()[1:]) == {"-"}
    auto = next(line for line in large.splitlines() if line.startswith("auto"))
    assert "%" in auto


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is measured on Linux")
def test_memory(tmp_path):
    output = tmp_path / "layer.json"
    settings = ["--sizes", "16x8x1", "--scopes", "3", "--repeats", "1", "--min_ms", "0.1"]
    more = ["--memory", "true", "--implementations", "auto", "--output", str(output)]
    command.main(["layer", *settings, *more])
    report = json.loads(output.read_text())
    assert "peak" in report["conventions"]["temporary_bytes"]
    dense = Case(16, 8, 1, 3).dense_bytes(itemsize=4)
    for row in report["rows"]:
        for mode in MODES:
            assert row[mode]["memory_reason"] is None
            least = dense if row["implementation"] == "einsum" else 0
            assert row[mode]["temporary_bytes"] >= least
    with Image.open(output.with_suffix(".png")) as picture:
        assert picture.width > 1500  # three panels


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--implementations", "convv"], "did you mean 'conv'"),
        (["--backend", "jax", "--xla", "true"], "tensorflow backend only.*Received: jax"),
        (["--backend", "theano"], "backend: no such choice"),
        (["--repeats", "0"], "repeats"),
    ],
)
def test_wrong_settings(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        command.main(["layer", *QUICK, *arguments])
    assert "\n" not in str(caught.value)


def test_another_backend_than_the_one_in_use():
    with pytest.raises(RuntimeError, match="already runs on tensorflow"):
        command.main(["layer", *QUICK, "--backend", "jax"])


def test_help(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmark", "layer", "--help"])
    with pytest.raises(SystemExit) as caught:
        run_command(command.main, backends=BACKENDS)
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    for name in layer.LayerConfig.model_fields:
        assert f"--{name}" in printed


def test_missing_backend_is_one_line():
    script = (
        "import sys; sys.modules['jax'] = None; sys.argv[1:] = ['layer', '--backend', 'jax'];"
        "from zoo.cli.run import BACKENDS, run_command; from zoo.benchmark.__main__ import main;"
        "run_command(main, backends=BACKENDS)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "jax is not installed: pip install 'lambda_keras[jax]'" in result.stderr
