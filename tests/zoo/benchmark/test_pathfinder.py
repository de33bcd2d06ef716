"""`python -m zoo.benchmark pathfinder`: equal networks, kept runs, table, JSON and picture."""

import json

import keras
import numpy as np
import pytest
from PIL import Image

from zoo.benchmark import __main__ as command
from zoo.benchmark import pathfinder, plots
from zoo.data.sources import pathfinder as drawings
from zoo.registry import trainable_parameters
from zoo.train import classification, network


def test_networks_have_as_many_parameters_within_5_percent():
    config = pathfinder.Config()
    assert len(config.mixers) == 5
    counts = {}
    for name in config.mixers:
        model = network.create_network(config.training(name, 0).model, 4)
        counts[name] = trainable_parameters(model)
        kinds = [type(layer).__name__ for layer in model._flatten_layers()]
        assert kinds.count("Conv2D") == (13 if name == "convolution" else 12)
    reference = counts["convolution"]
    assert {name: n for name, n in counts.items() if abs(n / reference - 1) > 0.05} == {}


def test_trainings_differ_in_mixer_and_seed_alone():
    config = pathfinder.Config()
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
        return keras.Model(
            inputs, keras.layers.Dense(classes, "softmax", name="predictions")(pooled)
        )

    monkeypatch.setattr(network, "create_network", create)
    monkeypatch.setattr(classification, "create_network", create)
    monkeypatch.setattr(drawings, "TRAIN_COUNT", 128)
    monkeypatch.setattr(drawings, "TEST_COUNT", 90)
    output = str(tmp_path / "pathfinder.json")
    arguments = ["pathfinder", "--mixers", "lambda,local", "--seeds", "3", "--epochs", "2"]
    return [*arguments, "--runs", str(tmp_path / "runs"), "--output", output]


def test_an_interrupted_comparison_goes_on(quick, tmp_path, monkeypatch, capsys):
    trained, train = [], classification.train

    def stopping(config):
        if len(trained) == 1:
            trained.append("stopped")
            raise SystemExit("stopped at step 1")
        trained.append(config.output_dir.name)
        return train(config)

    monkeypatch.setattr(classification, "train", stopping)
    with pytest.raises(SystemExit, match="stopped"):
        command.main(quick)
    assert not (tmp_path / "pathfinder.json").exists()
    command.main(quick)
    assert trained == ["lambda_3", "stopped", "local_3"]
    printed = capsys.readouterr().out
    report = json.loads((tmp_path / "pathfinder.json").read_text())
    lengths = drawings.held_out_drawings().lengths
    counts = [np.sum((low <= lengths) & (lengths <= high)) for low, high in pathfinder.LENGTHS]
    assert sum(counts) == 90
    for row, name in zip(report["rows"], ["lambda", "local"], strict=True):
        metrics = json.loads((tmp_path / f"runs/{name}_3/metrics.json").read_text())
        assert row == pathfinder.summary(name, [metrics | {"by_length": row["by_length"]}])
        assert len(row["curves"][0]) == 2
        # Two ways to the same figure: of all images in training, of each length afterwards.
        right = np.dot(counts, list(row["by_length"].values()))
        assert right == pytest.approx(90 * row["accuracy"], abs=0.01)
        assert f"{row['accuracy']:.1%}" in printed
    with Image.open(tmp_path / "pathfinder.png") as picture:
        assert picture.width > picture.height > 400

    with pytest.raises(ValueError, match=r"runs: .*lambda_3 holds a run .* \(training.epochs\)"):
        command.main([*quick, "--epochs", "3"])
    command.main(quick)  # of which everything is done
    assert len(trained) == 3


def test_accuracies_of_seeds_are_summarised():
    results = [
        {
            "test": {"accuracy": accuracy},
            "trainable_parameters": 5,
            "training_seconds": 4 * accuracy,
            "history": {"val_accuracy": [0.5, accuracy]},
            "by_length": {"6 to 12": 1.0, "13 to 19": accuracy},
        }
        for accuracy in (0.75, 0.5, 1.0)
    ]
    assert pathfinder.summary("global", results) == {
        "mixer": "global",
        "arguments": pathfinder.COMMON | pathfinder.MIXERS["global"],
        "parameters": 5,
        "accuracy": 0.75,
        "deviation": 0.25,
        "lowest": 0.5,
        "highest": 1.0,
        "accuracies": [0.75, 0.5, 1.0],
        "by_length": {"6 to 12": 1.0, "13 to 19": 0.75},
        "curves": [[0.5, 0.75], [0.5, 0.5], [0.5, 1.0]],
        "training_seconds": 3.0,
    }
    assert pathfinder.summary("global", results[:1])["deviation"] is None


def test_picture_has_a_line_for_each_training(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: drawn.append(figure))
    rows = [
        {"mixer": name, "curves": [[0.5, 0.6 + 0.1 * i], [0.5, 0.8]]}
        for i, name in enumerate(pathfinder.MIXERS)
    ]
    hardware = {"cpu": "a CPU", "cores": 2, "accelerator": None}
    plots.plot_pathfinder({"rows": rows, "hardware": hardware}, tmp_path / "pathfinder.png")
    lines = drawn[0].axes[0].lines
    assert len(lines) == 3 * len(rows)
    thick = [line for line in lines if line.get_marker() != "None"]
    means = {line.get_label(): line.get_ydata()[-1] for line in thick}
    assert means == pytest.approx({row["mixer"]: 70 + 5 * i for i, row in enumerate(rows)})
