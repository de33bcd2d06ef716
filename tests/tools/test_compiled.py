"""`python -m tools.compiled`; compiling itself needs JAX and a device's compiler."""

import json
import os
import subprocess
import sys
from importlib import metadata

import keras
import pytest
from support import commands, needs
from support.tiny_networks import tiny_networks  # noqa: F401

from lambda_keras.layers import BatchNormalization
from tools import compiled
from tools.kernels import DEVICES
from zoo.benchmark import models
from zoo.benchmark.layer import MODES
from zoo.precision import precision

PLUGINS = {"h100": "jax_plugins.xla_cuda12", "v5e": "libtpu"}
TPU_PYTHON = ".venv-tpu/bin/python"
NETWORK = "lambda_resnet14@32x2:dropout_rate=0.2"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("line", "message"), commands.lines("compiled.txt"))
def test_wrong_settings_are_one_line(line, message, capsys):
    assert message in commands.refuse("compiled", capsys, *line.split(), compiled=compiled.main)


@pytest.mark.parametrize(("device", "package"), [("v5e", "libtpu"), ("h100", "jax-cuda12-plugin")])
def test_a_missing_compiler_says_what_to_install(monkeypatch, device, package):
    def version(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(ImportError, match=f"is not installed: pip install jax==.* {package}=="):
        compiled.main(["--device", device])


@pytest.fixture
def answers(monkeypatch):
    """Analyses in place of compilation, by name of the case; and what was asked for."""
    asked, found = [], {}

    def call(function, calls, seconds):
        for case, mode, device, kernels in calls:
            asked.append((case.name, mode, device.title, kernels, seconds))
            yield found[case.name]

    monkeypatch.setattr(compiled, "in_new_process", call)
    for place in ("tools.compiled.use_backend", "tools.compiled.installed"):
        monkeypatch.setattr(place, lambda *_: None)
    monkeypatch.setattr("zoo.benchmark.report.installed", lambda *_: {})
    monkeypatch.setattr(compiled.os, "environ", dict(os.environ))
    return asked, found


def analysis(ideal_ms: float, **others) -> dict:
    return {**dict.fromkeys(compiled.ANALYSIS, 2e9), "ideal_ms": ideal_ms, **others}


def test_layers(answers, capsys, tmp_path):
    asked, found = answers
    kernel = {"name": "gemm_fusion", "source": "jit/dot", "calls": 1, "ideal_us": 3.0}
    kernel |= {"bytes_accessed": 1e6, "operations": 1e9}
    found |= {"einsum": analysis(8.0), "conv": {"reason": "did not end in 60 s"}}
    found["auto"] = analysis(2.0, most_expensive=[kernel])
    output = tmp_path / "h100.json"
    settings = f"--device h100 --sizes 7x8 --implementations conv,auto --output {output}"
    compiled.main([*settings.split(), "--kernels", "1", "--seconds", "60"])
    printed = capsys.readouterr().out
    report = json.loads(output.read_text())
    assert {name for name, *_ in asked} == set(found)
    expected = [(mode, "NVIDIA H100 SXM, 80 GB", 1, 60) for mode in MODES]
    assert [asked[0][1:], asked[-1][1:]] == expected
    for mode in MODES:
        first, missing, auto = (row[mode] for row in report["rows"])
        assert [one[key] for one in (first, auto) for key in ("speedup", "of_best")] == [1, 1, 4, 4]
        assert missing["reason"] == "did not end in 60 s"
        assert {missing[key] for key in compiled.ANALYSIS} == {None}
    assert report["hardware"]["accelerator"].endswith("(compiled, not run)")
    assert report["hardware"]["device"]["bandwidth"] == 3.35e12
    assert "compiled, not run: 7x7, depth 8, batch 128, scope 23, forward, auto" in printed
    assert "| gemm_fusion | 1 | 3.00 | 1.00 | 1.00 | jit/dot |" in printed
    assert "- conv: did not end in 60 s" in printed
    asked.clear()
    compiled.main(settings.split())
    assert not asked


def test_networks(answers, tiny_networks, capsys, tmp_path):  # noqa: F811
    asked, found = answers
    found |= {"lambda_resnet50@160x128": analysis(9.0), "keras.MobileNet@32": {"reason": "ended"}}
    output = tmp_path / "v5e.json"
    settings = f"--device v5e --models {','.join(found)} --batch 4 --output {output}"
    compiled.main(settings.split())
    rows = json.loads(output.read_text())["rows"]
    assert [(name, mode) for name, mode, *_ in asked] == [(name, "training") for name in found]
    assert [row["batch"] for row in rows] == [128, 4]
    first, second = (row["training"] for row in rows)
    assert (first["ideal_ms"], second["reason"]) == (9.0, "ended")
    # (17,179,869,184 + 39,321,600 bytes of images) / (2e9 + 39,321,600) of 128 images
    assert (first["largest_batch"], second["largest_batch"]) == (1080, None)
    assert first["ideal_images_per_second"] == pytest.approx(128 / 9e-3)
    assert "compiled, not run: training" in capsys.readouterr().out
    found["lambda_resnet14@32"] = analysis(1.0)
    compiled.main(settings.replace(" --batch", ",lambda_resnet14@32 --batch").split())
    assert asked[2:] == [("lambda_resnet14@32", *asked[0][1:])]
    assert json.loads(output.read_text())["rows"][:2] == rows
    with pytest.raises(ValueError, match=r"output: expected a file with the same hardware: NVIDIA"):
        compiled.main(settings.replace("v5e ", "h100 ").split())


def test_a_python_without_tensorflow_for_tpus_is_one_line(answers):
    settings = f"--device v5e --models {NETWORK} --tensorflow {sys.executable}"
    with pytest.raises(ValueError, match="expected the Python of an environment with tensorflow-"):
        compiled.main(settings.split())


def penalties(model) -> set[float]:
    """Factors of the L2 penalties of a network."""
    variables = model.network.trainable_variables
    return {float(one.regularizer.l2) for one in variables if one.regularizer}


def test_step_of_a_recipe_is_that_of_the_run(monkeypatch, tiny_networks):  # noqa: F811
    """With its own optimizer, schedule, L2, objective and metrics, at another size and batch."""
    monkeypatch.setattr("zoo.train.network.create_model", models.create_model)
    case = compiled.parse_trained("recipe.lambda_mobilenet_v2_i224_350ep@32x2")
    model = case.compile()
    assert (case.batch, model.network.input_shape) == (2, (None, 32, 32, 3))
    assert (model.optimizer.rho, model.optimizer.momentum) == (0.9, 0.9)
    schedule = keras.optimizers.schedules.LearningRateSchedule
    assert isinstance(model.optimizer._learning_rate, schedule)
    assert (model.averages.decay, model.objective.loss.label_smoothing) == (0.9999, 0.1)
    assert [*penalties(model)] == pytest.approx([5e-6])
    assert len(model.metrics_variables) == 6  # totals and counts of the loss and two accuracies


def test_step_has_l2_averages_and_smoothing(tiny_networks):  # noqa: F811
    model = compiled.parse_trained("lambda_resnet14@32x2:classes=3").compile()
    # The averages of all weights.
    assert len(model.non_trainable_variables) > len(model.network.weights)
    assert penalties(model) == {2e-5}
    assert (model.optimizer.momentum, model.loss.label_smoothing) == (0.9, 0.1)
    assert model.network.layers[-1].name == "logits"


@pytest.mark.slow
def test_result_of_a_new_process():
    """Its result; or its error, its end or its delay as a reason, and the next ones go on."""
    calls = ["{'a': 1}", "1 / 0", "__import__('os')._exit(3)", "__import__('time').sleep(600)", "2"]
    found = compiled.in_new_process(eval, [(call,) for call in calls], seconds=20)
    assert list(found) == [
        {"a": 1},
        {"reason": "ZeroDivisionError: division by zero"},
        {"reason": "the compiler's process ended with exit code 3"},
        {"reason": "did not end in 20 s"},
        2,
    ]


def compile_it(folder, *words):
    """The report of the command, and the analyses in it."""
    output = folder / "compiled.json"
    command = [sys.executable, "-m", "tools.compiled", *words, "--output", str(output)]
    subprocess.run(command, check=True)
    report = json.loads(output.read_text())
    found = [row[mode] for row in report["rows"] for mode in (*MODES, "training") if mode in row]
    for one in found:
        assert one["reason"] is None
        assert min(one["ideal_ms"], one["kernels"], one["operations"]) > 0
    return report, found


@pytest.mark.slow
@pytest.mark.parametrize("device", PLUGINS)
@pytest.mark.parametrize(
    ("settings", "kernels"),
    [
        ("--sizes 4x8x2 --scopes 3 --implementations auto --kernels 1", [1] * 4),
        (f"--models {NETWORK}", [0]),
    ],
)
def test_compiles_for_a_device_that_is_not_there(tmp_path, device, settings, kernels):
    needs.check("jax", PLUGINS[device])
    report, found = compile_it(tmp_path, "--device", device, *settings.split())
    for one in found:
        assert one["argument_bytes"] < one["hbm_bytes"]
        assert one["hbm_bytes"] < report["hardware"]["device"]["memory_bytes"]
    assert [len(one["most_expensive"]) for one in found] == kernels
    if "--models" in settings:  # weights, momenta and averages in float32 at least
        assert found[0]["argument_bytes"] > 3 * 4 * 855_544


@pytest.mark.slow
@pytest.mark.needs(TPU_PYTHON, "jax", PLUGINS["v5e"])
def test_compiles_a_step_of_tensorflow(tmp_path):
    words = ["--device", "v5e", "--models", NETWORK, "--tensorflow", TPU_PYTHON]
    report, (found,) = compile_it(tmp_path, *words)
    # Weights, momenta and averages, updated in place: nothing of them counts twice.
    assert 3 * 4 * 855_544 < found["argument_bytes"] < 4 * 4 * 855_544
    assert report["backend"] == "tensorflow"
    assert report["versions"]["tensorflow-tpu"]


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="programs of JAX can be read")
@pytest.mark.needs("jax_plugins.xla_cuda12")
def test_passes_of_batch_normalization():
    """A training step with ReLU reads or writes the activations 8 times, the least number."""
    from tools.compiler import Compiler

    shape = (128, 40, 40, 64)
    with precision("mixed_bfloat16"):
        layers = [BatchNormalization(), keras.layers.ReLU()]
    model = keras.Sequential([keras.Input(shape[1:], dtype="bfloat16"), *layers])
    activations = keras.ops.ones(shape, "bfloat16")
    step = Compiler(DEVICES["h100"], 0).forward_backward(model, activations, activations)
    assert step["bytes_accessed"] / activations.nbytes == pytest.approx(8, abs=0.1)
