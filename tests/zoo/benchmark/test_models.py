"""`python -m zoo.benchmark models`: table and JSON; nothing is said about speed."""

import json

import pytest

from zoo.benchmark import __main__ as command
from zoo.benchmark import models
from zoo.benchmark.models import MODES, parse


def test_tables_and_json(tiny_networks, tmp_path, capsys):
    output = tmp_path / "new" / "models.json"
    settings = "--models lambda_resnet14@32,keras.MobileNet@32 --batch 2 --repeats 2 --min_ms 0.1"
    command.main(["models", *settings.split(), "--memory", "true", "--output", str(output)])
    printed = capsys.readouterr().out
    report = json.loads(output.read_text())
    assert report["hardware"]["threads"] >= 1
    assert {*MODES, "ratio", "ms"} <= set(report["conventions"])
    ours, theirs = report["rows"]
    assert (ours["entry"], ours["parameters"]) == ("lambda_resnet14@32", 5_084)
    assert (theirs["entry"], theirs["image_size"]) == ("keras.MobileNet@32", 32)
    for mode in MODES:
        assert ours[mode]["ratio"] == 1
        speeds = [row[mode]["images_per_second"] for row in (ours, theirs)]
        assert theirs[mode]["ratio"] == pytest.approx(speeds[1] / speeds[0])
        for row in (ours, theirs):
            assert row["entry"] in printed
            assert row[mode]["reason"] is None
            assert len(row[mode]["rounds_ms"]) == 2
            assert row[mode]["images_per_second"] == pytest.approx(2e3 / row[mode]["ms"])
            assert row[mode]["memory_method"]
    assert [path.name for path in output.parent.iterdir()] == ["models.json"]


def test_one_mode_with_xla(tiny_networks, capsys):
    settings = "--models lambda_resnet14@32 --batch 1 --repeats 1 --modes forward --xla true"
    command.main(["models", *settings.split()])
    printed = capsys.readouterr().out
    assert "forward" in printed
    assert "training" not in printed


def test_what_was_not_measured_has_no_ratio():
    networks = [parse("lambda_resnet14@32", 8), parse("lambda_resnet14@32x4", 8)]
    figures = {"lambda_resnet14@32": {"ms": None}, "lambda_resnet14@32x4": {"ms": 4.0}}
    models.compare(networks, figures)
    missing, measured = figures.values()
    assert missing == {"ms": None, "images_per_second": None, "ratio": None}
    assert measured == {"ms": 4.0, "images_per_second": 1000, "ratio": None}


def test_defaults_are_the_sizes_of_published_accuracies():
    assert [parse(text).image_size for text in models.Config().models] == [160, 240, 192, 300]
