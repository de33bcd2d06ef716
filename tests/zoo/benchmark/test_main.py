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

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_commands_are_listed(capsys, arguments):
    with pytest.raises(SystemExit):
        command.main(arguments)
    printed = capsys.readouterr().out
    assert all(name in printed for name in COMMANDS["benchmark"].parts)


def test_settings_know_their_command_line():
    settings = parse("zoo.benchmark", ["layer", "--sizes", "7x8", "--output", "a b.json"])
    assert settings.command == "python -m zoo.benchmark layer --sizes 7x8 --output 'a b.json'"


@pytest.mark.slow
def test_commands_import_no_backend_before_their_settings_are_read():
    script = (
        "import sys; from zoo.benchmark.__main__ import main\n"
        "for name in sys.argv[1:]:\n"
        "    try: main([name, '--help'])\n"
        "    except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    command_line = [sys.executable, "-c", script, *COMMANDS["benchmark"].parts]
    result = subprocess.run(command_line, cwd=ROOT, capture_output=True, text=True, check=True)
    *helps, modules = result.stdout.splitlines()
    assert all(f"--{name}" in "\n".join(helps) for name in layer.Config.model_fields)
    loaded = {name.split(".")[0] for name in modules.split()}
    assert "zoo" in loaded
    assert not loaded & {"keras", "tensorflow", "jax", "torch", "sklearn", "matplotlib"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("layers", "did you mean 'layer'"),
        ("layer --sizes 0x8", "sizes.0: expected SIZExDEPTH"),
        ("layer --sizes 8x6", "divisible by 4"),
        ("layer --sizes 8x8,8x8", "each once"),
        ("layer --scopes 4", "scopes.0: expected positive odd numbers. Received: 4"),
        ("layer --output table.txt", r"file named \.json.*Received: 'table.txt'"),
        ("layer --implementations convv", "did you mean 'conv'"),
        ("layer --backend jax --xla true", "tensorflow backend only.*Received: jax"),
        ("attention --mixers globl", "expected mixer to be one of lambda, .*mixer='globl'"),
        ("attention --mixers global:scope=7", "expected arguments that mixer='global' has"),
        ("attention --mixers axial,axial", "each once"),
        ("attention --mixers axial:", "expected NAME"),
        ("attention --sizes 8x24", "expected depths divisible by 16. Received: '8x24'"),
        ("attention --dtype float16", "Allowed: float32, mixed_bfloat16, mixed_float16"),
        ("models --models lambda_resnet14@32:alpha=7", "expected an argument of LambdaResNet14"),
        ("models --models lambda_resnet50@16", "at least 32 pixels"),
        ("models --models keras.MobileNet@16", "at least 32x32"),
        ("models --models keras.MobilNet@32", "network of keras.app.*did you mean 'MobileNet'"),
        ("models --modes backward", "modes.*no such mode.*Allowed: forward, training"),
        ("serving --models keras.ResNet50@224", "expected networks of the zoo"),
    ],
)
def test_wrong_settings_are_one_line(monkeypatch, here, arguments, message):
    for module in (timing, serving):
        monkeypatch.setattr(module, "time_in_turn", lambda *_: pytest.fail("work has begun"))
    if "--output" not in arguments and " " in arguments:
        arguments += " --output report.json"
    with pytest.raises(ValueError, match=message) as caught:
        command.main(arguments.split())
    assert "\n" not in str(caught.value)
    assert not list(here.iterdir())


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
    # An experiment's results have the name of its file.
    output = config.output or Path("docs/benchmarks") / f"{config.file.stem}.json"
    assert output == Path("docs/benchmarks") / path.name


@pytest.mark.slow
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
