"""`python -m zoo.benchmark tpu-compile`; compiling itself needs the optional jax and libtpu."""

import importlib.util
import json
import re
import subprocess
import sys
from importlib import metadata

import pytest

from zoo.benchmark import __main__ as command
from zoo.benchmark import fresh, tpu_compile
from zoo.benchmark.cases import MODES

INSTALLED = all(importlib.util.find_spec(package) for package in tpu_compile.PACKAGES["jax"])
NETWORK = "lambda_resnet14@32x2:dropout_rate=0.2"


@pytest.mark.parametrize(
    ("backend", "package"),
    [(backend, package) for backend, names in tpu_compile.PACKAGES.items() for package in names],
)
def test_missing_package_says_what_to_install(monkeypatch, backend, package):
    def version(name):
        if name == package:
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(ImportError, match=f"{package} is not installed: pip install .*libtpu=="):
        command.main(["tpu-compile", "--backend", backend, "--model", NETWORK])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--backend", "tensorflow"], "expected jax without --model. Received: tensorflow"),
        (["--model", NETWORK, "--dtype", "float16"], "expected a mixed one"),
        (["--model", "lambda_resnet50@160"], "expected NAME@SIZExBATCH"),
        (["--model", "lambda_resnet51@160x8"], "did you mean 'lambda_resnet50'"),
    ],
)
def test_wrong_settings(arguments, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        command.main(["tpu-compile", *arguments])


def test_time_limit_is_longer_for_networks():
    config = tpu_compile.TpuCompileConfig
    assert config().limit == tpu_compile.SECONDS
    assert config(model=(NETWORK,)).limit == tpu_compile.MODEL_SECONDS
    assert config(model=(NETWORK,), seconds=5).limit == 5


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
