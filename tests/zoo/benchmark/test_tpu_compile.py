"""`python -m zoo.benchmark tpu-compile`; compiling itself needs the optional jax and libtpu."""

import importlib.util
import json
import subprocess
import sys

import pytest

from zoo.benchmark import __main__ as command
from zoo.benchmark import fresh, tpu_compile
from zoo.benchmark.cases import MODES

INSTALLED = all(importlib.util.find_spec(package) for package in tpu_compile.PACKAGES)


@pytest.mark.parametrize("package", tpu_compile.PACKAGES)
def test_missing_package_says_what_to_install(monkeypatch, package):
    found = importlib.util.find_spec("json")
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else found
    )
    with pytest.raises(ImportError, match=f"{package} is not installed: pip install jax=="):
        command.main(["tpu-compile"])


def test_defaults_are_the_maps_of_the_readme():
    shapes = [case.input_shape for case in tpu_compile.TpuCompileConfig().cases()]
    assert shapes == [(32, 56, 56, 64), (64, 14, 14, 256)]


@pytest.fixture
def compiled(monkeypatch):
    """Stands for the fresh process: figures by implementation."""
    answers = {
        "einsum": {"operations": 8e9, "bytes_accessed": 4e9, "temporary_bytes": 0, "seconds": 1.0},
        "conv": {"reason": "did not compile in 60 s"},
        "auto": {"operations": 2e9, "bytes_accessed": 1e9, "temporary_bytes": 0, "seconds": 2.0},
    }
    monkeypatch.setattr(fresh, "call", lambda _, request, __: answers[request["implementation"]])


def test_rows_compare_with_the_baseline(compiled, capsys):
    config = tpu_compile.TpuCompileConfig()
    case = config.cases()[0]
    baseline = tpu_compile.compile_one(case, "einsum", MODES[0], config, [])
    assert baseline["ratios"]["operations"] == 1
    auto = tpu_compile.compile_one(case, "auto", MODES[0], config, [baseline])
    assert auto["ratios"] == {
        "operations": 0.25,
        "bytes_accessed": 0.25,
        "temporary_bytes": None,
    }
    failed = tpu_compile.compile_one(case, "conv", MODES[0], config, [baseline])
    assert failed["ratios"]["operations"] is None
    for row in (auto, failed):
        tpu_compile.print_row(row)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["auto", "2.00", "0.250", "1.00", "0.250", "0.00", "-", "2.0", "s"]
    assert lines[1].split(maxsplit=2) == ["conv", "-", "did not compile in 60 s"]


def test_failed_baseline_leaves_no_ratios(compiled):
    config = tpu_compile.TpuCompileConfig()
    failed = tpu_compile.compile_one(config.cases()[0], "conv", MODES[0], config, [])
    auto = tpu_compile.compile_one(config.cases()[0], "auto", MODES[0], config, [failed])
    assert set(auto["ratios"].values()) == {None}


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="needs the optional packages jax and libtpu")
def test_compiles_for_a_tpu_that_is_not_there(tmp_path):
    output = tmp_path / "tpu.json"
    settings = ["--sizes", "4x8x2", "--scopes", "3", "--implementations", "auto"]
    subprocess.run(
        [sys.executable, "-m", "zoo.benchmark", "tpu-compile", *settings, "--output", str(output)],
        check=True,
    )
    rows = json.loads(output.read_text())["rows"]
    assert [row["mode"] for row in rows] == [MODES[0]] * 2 + [MODES[1]] * 2
    assert all(row["operations"] > 0 and row["reason"] is None for row in rows)
