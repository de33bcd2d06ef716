"""`python -m zoo.benchmark` finds its commands, imports what they need, refuses bad input."""

import json
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from support.commands import parse

from zoo.benchmark import __main__ as command
from zoo.benchmark import layer, serving, timing
from zoo.cli.commands import COMMANDS
from zoo.cli.run import run_command

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_commands_are_listed(capsys, arguments):
    with pytest.raises(SystemExit):
        command.main(arguments)
    printed = capsys.readouterr().out
    assert all(name in printed for name in COMMANDS["benchmark"].parts)


@pytest.mark.parametrize("name", COMMANDS["benchmark"].parts)
def test_a_command_imports_no_backend_before_its_settings_are_read(name):
    script = (
        f"import sys; from zoo.benchmark.__main__ import main\n"
        f"try: main([{name!r}, '--help'])\n"
        "except SystemExit: print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in result.stdout.splitlines()[-1].split()}
    assert "zoo" in loaded
    assert not loaded & {"keras", "tensorflow", "jax", "torch", "sklearn", "matplotlib"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("layers", "did you mean 'layer'"),
        ("layer --sizes 8", "sizes.0: expected SIZExDEPTH"),
        ("layer --sizes 0x8", "sizes.0: expected SIZExDEPTH"),
        ("layer --sizes 8x8x8x8", "sizes.0: expected SIZExDEPTH"),
        ("layer --sizes 8x6", "divisible by 4"),
        ("layer --sizes 8x8,8x8", "each once"),
        ("layer --scopes 4", "scopes.0: expected positive odd numbers. Received: 4"),
        ("layer --scopes -3", "scopes.0: expected positive odd numbers. Received: -3"),
        ("layer --output table.txt", r"file named \.json.*Received: 'table.txt'"),
        ("layer --dtype float3", "did you mean 'float32'"),
        ("layer --batch 0", "batch"),
        ("layer --part content", "no such setting"),
        ("layer --bach 1", "did you mean '--batch'"),
        ("layer --implementations convv", "did you mean 'conv'"),
        ("layer --backend jax --xla true", "tensorflow backend only.*Received: jax"),
        ("layer --backend theano", "backend: no such choice"),
        ("layer --repeats 0", "repeats"),
        ("layer --min_ms 0", "min_ms"),
        ("attention --mixers globl", "expected mixer to be one of lambda, .*mixer='globl'"),
        ("attention --mixers global:scope=7", "expected arguments that mixer='global' has"),
        ("attention --mixers axial,axial", "each once"),
        ("attention --mixers axial:", "expected NAME"),
        ("attention --sizes 8", "expected SIZExDEPTH"),
        ("attention --sizes 8x24", "expected depths divisible by 16. Received: '8x24'"),
        ("attention --sizes 8x16,8x16", "each once"),
        ("attention --dense_limit_gb 0", "dense_limit_gb"),
        ("attention --dtype float16", "Allowed: float32, mixed_bfloat16, mixed_float16"),
        ("models --models lambda_resnet15", "expected the name.*did you mean 'lambda_res"),
        ("models --models lambda_resnet14,lambda_resnet14", "each once"),
        ("models --models lambda_resnet14@32:alpha=7", "expected an argument of LambdaResNet14"),
        ("models --models lambda_resnet50@16", "at least 32 pixels"),
        ("models --models keras.MobileNet@16", "at least 32x32"),
        ("models --models keras.MobilNet@32", "network of keras.app.*did you mean 'MobileNet'"),
        ("models --models keras.MobileNet", "expected an image size"),
        ("models --modes backward", "modes.*no such mode.*Allowed: forward, training"),
        ("models --modes forward,forward", "each once"),
        ("models --dtype float16", "Allowed: float32, mixed_bfloat16, mixed_float16"),
        ("models --batch 0", "batch"),
        ("serving --models keras.ResNet50@224", "expected networks of the zoo"),
        ("serving --batches 0", "batches"),
        ("serving --batches 1,1", "each once"),
        ("serving --threads 0", "threads"),
        ("models --models lambda_resnet50@160x0", r"expected NAME\[@SIZE\[xBATCH\]\]"),
    ],
)
def test_wrong_settings_are_one_line(monkeypatch, tmp_path, arguments, message):
    for module in (timing, serving):
        monkeypatch.setattr(module, "time_in_turn", lambda *_: pytest.fail("work has begun"))
    monkeypatch.chdir(tmp_path)
    if "--output" not in arguments and " " in arguments:
        arguments += " --output report.json"
    with pytest.raises(ValueError, match=message) as caught:
        command.main(arguments.split())
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs/benchmarks").glob("*.json")), ids=lambda path: path.stem
)
def test_what_printed_the_figures_of_the_docs_still_can(path):
    report = json.loads(path.read_text())
    python, dash_m, module, *arguments = shlex.split(report["command"])
    assert [python, dash_m] == ["python", "-m"]
    name = arguments[0] if module == "zoo.benchmark" else module.removeprefix("tools.")
    assert name == report["benchmark"]
    config = parse(module, arguments)
    assert config.output == Path("docs/benchmarks") / path.name


def test_help(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmark", "layer", "--help"])
    with pytest.raises(SystemExit) as caught:
        run_command(command.main)
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    for name in layer.Config.model_fields:
        assert f"--{name}" in printed


def test_missing_backend_is_one_line():
    script = (
        "import sys; sys.modules['jax'] = None; sys.argv[1:] = ['layer', '--backend', 'jax'];"
        "from zoo.cli.run import run_command; from zoo.benchmark.__main__ import main;"
        "run_command(main)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "jax is not installed: pip install 'SOURCE[jax]', SOURCE being " in result.stderr


@pytest.mark.parametrize(
    ("arguments", "command_line"),
    [
        ("models --models lambda_resnet14,timm.lambda_resnet26t@256", "pip install timm torch"),
        ("serving", r"pip install 'SOURCE\[export\]'"),
    ],
)
def test_a_missing_package_says_what_to_install(monkeypatch, arguments, command_line):
    def version(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")  # which serving sets
    with pytest.raises(ImportError, match=f"is not installed: {command_line}"):
        command.main(arguments.split())
