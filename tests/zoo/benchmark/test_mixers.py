"""`python -m zoo.benchmark mixers`: equal networks, runs that are kept, table, JSON and picture."""

import json

import keras
import numpy as np
import pytest
from PIL import Image

from zoo import run_folder
from zoo.benchmark import __main__ as command
from zoo.benchmark import mixers, plots
from zoo.data import pathfinder
from zoo.registry import trainable_parameters
from zoo.train import loop, network


def test_networks_have_as_many_parameters_within_5_percent():
    config = mixers.Config()
    assert len(config.mixers) == 5
    counts = {}
    for name in config.mixers:
        model = network.create_network(config.training(name, 0).model, 2)
        counts[name] = trainable_parameters(model)
        kinds = [type(layer).__name__ for layer in model._flatten_layers()]
        assert kinds.count("Conv2D") == (12 if name == "convolution" else 11)
    reference = counts["convolution"]
    assert {name: n for name, n in counts.items() if abs(n / reference - 1) > 0.05} == {}


def test_trainings_differ_in_mixer_and_seed_alone():
    config = mixers.Config()
    one, other = (config.training("global", seed).model_dump() for seed in (0, 1))
    assert (one["training"].pop("seed"), other["training"].pop("seed")) == (0, 1)
    third = config.training("lambda", 0).model_dump()
    third["training"].pop("seed")
    for settings in (one, other, third):
        settings["output_dir"] = settings["model"]["overrides"] = None
    assert one == other == third


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """Arguments of a comparison that takes seconds, on few images with a network of one layer."""

    def create(config, classes):
        inputs = keras.Input((config.size, config.size, 3))
        pooled = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3)(inputs))
        return keras.Model(inputs, keras.layers.Dense(classes, "softmax")(pooled))

    monkeypatch.setattr(network, "create_network", create)
    monkeypatch.setattr(loop, "create_network", create)
    monkeypatch.setattr(pathfinder, "TRAIN_COUNT", 128)
    monkeypatch.setattr(pathfinder, "TEST_COUNT", 40)
    monkeypatch.setattr(pathfinder, "CANDIDATES", 512)
    output = str(tmp_path / "mixers.json")
    arguments = ["mixers", "--mixers", "lambda,local", "--seeds", "0,1", "--epochs", "2"]
    return [*arguments, "--runs", str(tmp_path / "runs"), "--output", output]


def test_an_interrupted_comparison_goes_on(quick, tmp_path, monkeypatch, capsys):
    trained, train = [], loop.train

    def stopping(config):
        if len(trained) == 1:
            trained.append("stopped")
            raise SystemExit("stopped at step 1")
        trained.append(config.output_dir.name)
        return train(config)

    monkeypatch.setattr(loop, "train", stopping)
    with pytest.raises(SystemExit, match="stopped"):
        command.main(quick)
    assert not (tmp_path / "mixers.json").exists()
    command.main(quick)
    assert trained == ["lambda_0", "stopped", "local_0", "lambda_1", "local_1"]
    printed = capsys.readouterr().out

    report = json.loads((tmp_path / "mixers.json").read_text())
    assert [row["mixer"] for row in report["rows"]] == ["lambda", "local"]
    for row in report["rows"]:
        found = [
            json.loads((tmp_path / "runs" / f"{row['mixer']}_{seed}/metrics.json").read_text())
            for seed in (0, 1)
        ]
        accuracies = [metrics["test"]["accuracy"] for metrics in found]
        assert row["accuracies"] == accuracies
        assert row["accuracy"] == pytest.approx(np.mean(accuracies))
        assert row["deviation"] == pytest.approx(np.std(accuracies, ddof=1))
        assert (row["lowest"], row["highest"]) == (min(accuracies), max(accuracies))
        assert row["curves"] == [metrics["history"]["val_accuracy"] for metrics in found]
        assert [len(curve) for curve in row["curves"]] == [2, 2]
        assert f"{row['accuracy']:.1%}" in printed
    with Image.open(tmp_path / "mixers.png") as picture:
        assert picture.width > picture.height > 400

    with pytest.raises(ValueError, match=r"runs: .*lambda_0 holds a run .* \(training.epochs\)"):
        command.main([*quick, "--epochs", "3"])
    command.main(quick)  # of which everything is done
    assert len(trained) == 5


def test_a_single_seed_has_no_deviation():
    metrics = {
        "test": {"accuracy": 0.75},
        "trainable_parameters": 5,
        "training_seconds": 2.0,
        "history": {"val_accuracy": [0.5, 0.75]},
    }
    row = mixers.summary("global", [metrics])
    assert (row["accuracy"], row["deviation"], row["lowest"]) == (0.75, None, 0.75)


def test_picture_has_a_line_for_each_training(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: drawn.append(figure))
    rows = [
        {"mixer": name, "curves": [[0.5, 0.6 + 0.1 * i], [0.5, 0.8]]}
        for i, name in enumerate(mixers.MIXERS)
    ]
    hardware = {"cpu": "a CPU", "cores": 2, "accelerator": None}
    plots.plot_mixers({"rows": rows, "hardware": hardware}, tmp_path / "mixers.png")
    lines = drawn[0].axes[0].lines
    assert len(lines) == 3 * len(rows)
    thick = [line for line in lines if line.get_marker() != "None"]
    means = {line.get_label(): line.get_ydata()[-1] for line in thick}
    assert means == pytest.approx({row["mixer"]: 70 + 5 * i for i, row in enumerate(rows)})


def test_run_folder_names_differing_settings(tmp_path):
    config = mixers.Config(runs=tmp_path)
    run_folder.start(config.training("local", 0))
    assert run_folder.differing(config.training("local", 0)) == []
    assert run_folder.differing(config.training("local", 1)) == ["training.seed"]
