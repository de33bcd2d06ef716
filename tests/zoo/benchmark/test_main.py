"""`python -m zoo.benchmark` imports what its commands need, and refuses bad input."""

import json
import shlex
from importlib import metadata
from pathlib import Path

import pytest
from support.commands import parse, run_without

from zoo.benchmark import __main__ as command
from zoo.benchmark import serving, timing

ROOT = Path(__file__).parents[3]


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
        ("models --models lambda_resnet14@32:alpha=7", "only MobileNetV2 and Lambda.* have it"),
        ("models --models lambda_resnet50@16", "at least 32 pixels"),
        ("models --models keras.MobileNet@16", "at least 32x32"),
        ("models --models keras.MobilNet@32", "network of keras.app.*did you mean 'MobileNet'"),
        ("models --models lambda_resnet51", "did you mean 'lambda_resnet50'"),
        ("models --models keras.EfficientNetB3", "expected an image size"),
        ("models --models karas.resnet50", "did you mean 'keras'"),
        ("models --models lambda_resnet50@7", "image size from 8 to 2048"),
        ("models --models lambda_resnet50@big", r"expected NAME\[@SIZE\[xBATCH\]\]"),
        ("models --models lambda_resnet50:scope", r"expected NAME\[@SIZE\[xBATCH\]\]"),
        ("models --models timm.some_network", "expected an image size"),
        ("models --models keras.ResNet50@224:classes=10", "no arguments for networks of keras"),
        ("models --models timm.lambda_resnet26t@64:scope=7", "channels_last, compile for networks"),
        ("models --models resnet50:input_shape=64", "other arguments than input_shape"),
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
    (line,) = run_without(("jax",), "zoo.benchmark layer --backend jax")
    assert "jax is not installed: pip install 'SOURCE[jax]', SOURCE being " in line
    assert line.startswith("2 error: ")


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
