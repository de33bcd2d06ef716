"""`python -m zoo.benchmark models`: table, JSON and picture; nothing is said about speed."""

import importlib.util
import json
import sys

import pytest
from PIL import Image

from zoo.benchmark import __main__ as command
from zoo.benchmark import fresh, models
from zoo.benchmark.networks import FORWARD, MODES, TRAINING
from zoo.benchmark.timing import Timing

QUICK = ["--models", "lambda_resnet14@32,keras.mobilenet@32", "--batch", "2"]
QUICK += ["--repeats", "2", "--min_ms", "0.1"]


def test_table_json_and_picture(tmp_path, capsys):
    output = tmp_path / "new" / "models.json"
    command.main(["models", *QUICK, "--memory", "true", "--output", str(output)])
    printed = capsys.readouterr().out
    report = json.loads(output.read_text())
    assert report["command"].startswith(
        "python -m zoo.benchmark models --models lambda_resnet14@32"
    )
    assert {"keras", "tensorflow", "lambda_keras"} <= set(report["versions"])
    assert report["hardware"]["threads"] >= 1
    assert {*MODES, "ratio", "ms", "top1"} <= set(report["conventions"])
    ours, theirs = report["rows"]
    assert (ours["entry"], ours["parameters"]) == ("lambda_resnet14@32", 855_544)
    assert (theirs["library"], theirs["model"], theirs["image_size"]) == ("keras", "mobilenet", 32)
    for mode in MODES:
        assert ours[mode]["ratio"] == 1
        speeds = [row[mode]["images_per_second"] for row in (ours, theirs)]
        assert theirs[mode]["ratio"] == pytest.approx(speeds[1] / speeds[0])
        for row in (ours, theirs):
            assert row["title"] in printed
            assert row[mode]["reason"] is None
            assert len(row[mode]["rounds_ms"]) == 2
            assert row[mode]["images_per_second"] == pytest.approx(2e3 / row[mode]["ms"])
            assert row[mode]["memory_reason"] is None
            assert row[mode]["memory_method"]
    assert theirs[TRAINING]["temporary_bytes"] > 0
    with Image.open(output.with_suffix(".png")) as picture:
        assert picture.width > 1500  # two panels
        assert picture.height > 500


def test_one_mode_with_xla(capsys):
    settings = ["--models", "lambda_resnet14@32", "--batch", "1", "--repeats", "1"]
    command.main(["models", *settings, "--modes", "forward", "--xla", "true"])
    printed = capsys.readouterr().out
    assert "forward" in printed
    assert "training" not in printed


def test_the_fastest_variant_counts_and_failures_are_told():
    variants = {
        "contiguous_format": Timing(0.5, [0.5], 1),
        "channels_last": Timing(0.25, [0.2, 0.25, 0.3], 4),
    }
    figures = models._figures(variants, batch=8)
    assert figures["variant"] == "channels_last"
    assert figures["images_per_second"] == 32
    assert figures["rounds_ms"] == [200, 250, 300]
    assert figures["variants"] == {"contiguous_format": 500, "channels_last": 250}
    figures = models._figures({**variants, "channels_last": "MemoryError: too large"}, batch=8)
    assert figures["images_per_second"] == 16
    assert figures["variants"]["channels_last"] == "MemoryError: too large"
    figures = models._figures({"": "MemoryError: too large"}, batch=8)
    assert (figures["ms"], figures["reason"]) == (None, "MemoryError: too large")
    assert models._figures({}, batch=8)["reason"] == "forward only"
    assert models._figures({"": Timing(1, [1], 1)}, batch=8)["variant"] is None


def test_what_could_not_be_measured_is_printed(capsys):
    row = {"entry": "a@32", "title": "a", "image_size": 32, "batch": 8, "parameters": 1_500_000}
    row[FORWARD] = models._figures({"": Timing(1, [1], 1)}, 8) | {"ratio": 1.0}
    row[TRAINING] = models._figures({"": "MemoryError: too large"}, 8)
    models.print_rows([row], MODES)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["a", "32", "8", "1.50", "8.00", "1.00", "-", "-", "-", "-"]
    assert lines[3] == "  - a@32, training: MemoryError: too large"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--models", "lambda_resnet15"],
            "models: expected the name.*did you mean 'lambda_resnet1",
        ),
        (["--models", "lambda_resnet14,lambda_resnet14"], "each once"),
        (["--models", "lambda_resnet14@32:scope=7"], "expected an argument of LambdaResNet14"),
        (["--models", "lambda_resnet50@16"], "at least 32 pixels"),
        (["--models", "keras.mobilenet@16"], "at least 32x32"),
        (["--modes", "backward"], "modes: no such mode.*Allowed: forward, training"),
        (["--dtype", "float16"], "Allowed: float32, mixed_bfloat16, mixed_float16"),
        (["--output", "table.txt"], r"ends in \.json"),
        (["--backend", "jax", "--xla", "true"], "tensorflow backend only"),
        (["--batch", "0"], "batch"),
    ],
)
def test_wrong_settings_are_one_line(monkeypatch, arguments, message):
    monkeypatch.setattr(models, "time_in_turn", lambda *_: pytest.fail("work has begun"))
    with pytest.raises(ValueError, match=message) as caught:
        command.main(["models", *QUICK, *arguments])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("package", ["timm", "torch"])
def test_missing_timm_says_what_to_install(monkeypatch, package):
    found = importlib.util.find_spec("json")
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else found
    )
    with pytest.raises(ImportError, match=f"{package} is not installed: pip install timm torch"):
        command.main(["models", "--models", "lambda_resnet14,timm.lambda_resnet26t"])


def test_modes_are_in_order_and_defaults_are_those_of_the_paper():
    assert models.ModelsConfig(modes=("training", "forward")).modes == MODES
    assert [entry.image_size for entry in models.ModelsConfig().entries()] == [160, 240, 192, 300]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is measured on Linux")
def test_memory_in_a_fresh_process(monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")  # whose allocator would keep the memory
    request = {"entry": "lambda_resnet14@64", "batch": 4, "dtype": "float32", "xla": False}
    request |= {"mode": TRAINING, "variant": ""}
    answer = fresh.call("zoo.benchmark.models", request, {"KERAS_BACKEND": "tensorflow"})
    assert set(answer) == {"peak"}
    assert answer["peak"] > 4 * 64 * 64 * 64 * 4  # one of the first feature maps
