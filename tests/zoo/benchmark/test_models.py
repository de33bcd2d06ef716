"""`python -m zoo.benchmark models`: table, JSON and picture; nothing is said about speed."""

import json

import pytest
from PIL import Image

from zoo.benchmark import __main__ as command
from zoo.benchmark import models
from zoo.benchmark.networks import MODES


def test_tables_json_and_picture(tiny_networks, tmp_path, capsys):
    output = tmp_path / "new" / "models.json"
    settings = "--models lambda_resnet14@32,keras.mobilenet@32 --batch 2 --repeats 2 --min_ms 0.1"
    command.main(["models", *settings.split(), "--memory", "true", "--output", str(output)])
    printed = capsys.readouterr().out
    report = json.loads(output.read_text())
    assert report["hardware"]["threads"] >= 1
    assert {*MODES, "ratio", "ms", "top1"} <= set(report["conventions"])
    ours, theirs = report["rows"]
    assert (ours["entry"], ours["parameters"]) == ("lambda_resnet14@32", 5_084)
    assert (theirs["library"], theirs["model"], theirs["image_size"]) == ("keras", "mobilenet", 32)
    for mode in MODES:
        assert ours[mode]["ratio"] == 1
        speeds = [row[mode]["images_per_second"] for row in (ours, theirs)]
        assert theirs[mode]["ratio"] == pytest.approx(speeds[1] / speeds[0])
        for row in (ours, theirs):
            assert row["entry"] in printed
            assert row[mode]["reason"] is None
            assert len(row[mode]["rounds_ms"]) == 2
            assert row[mode]["images_per_second"] == pytest.approx(2e3 / row[mode]["ms"])
            assert row[mode]["memory_reason"] is None
            assert row[mode]["memory_method"]
    with Image.open(output.with_suffix(".png")) as picture:
        assert picture.width > 1500  # two panels
        assert picture.height > 500


def test_one_mode_with_xla(tiny_networks, capsys):
    settings = "--models lambda_resnet14@32 --batch 1 --repeats 1 --modes forward --xla true"
    command.main(["models", *settings.split()])
    printed = capsys.readouterr().out
    assert "forward" in printed
    assert "training" not in printed


def test_what_was_not_measured_has_no_ratio():
    figures = {"a": {"ms": None}, "b": {"ms": 4.0}}
    models.compare(8, MODES[0], figures)
    assert figures["a"] == {"ms": None, "images_per_second": None, "ratio": None}
    assert figures["b"] == {"ms": 4.0, "images_per_second": 2000, "ratio": None}


def test_modes_are_in_order_and_defaults_are_those_of_the_paper():
    assert models.Config(modes=("training", "forward")).modes == MODES
    assert [network.image_size for network in models.Config().networks()] == [160, 240, 192, 300]
