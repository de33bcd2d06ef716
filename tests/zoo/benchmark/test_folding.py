"""`python -m zoo.benchmark folding`: what is compared is not trivial, and is the same network."""

import json

import keras
import networks
import numpy as np
import pytest

from zoo.benchmark import __main__ as command
from zoo.benchmark import folding
from zoo.registry import create_model


def test_statistics_are_not_trivial_and_activations_stay_in_range():
    model = create_model("lambda_resnet14", input_shape=(32, 32, 3), scope=7)
    images = networks.images(1, 32, 32, 3)
    before = [layer.momentum for layer in model.layers if hasattr(layer, "momentum")]
    folding.randomize(model, images)
    assert before == [layer.momentum for layer in model.layers if hasattr(layer, "momentum")]
    for weight in model.weights:
        if "gamma" in weight.path or "moving_variance" in weight.path:
            values = keras.ops.convert_to_numpy(weight)
            assert values.min() > 0
            assert values.std() > 0.01
    features = keras.Model(model.input, model.layers[-2].output)(images, training=False)
    assert 1e-3 < np.abs(keras.ops.convert_to_numpy(features)).max() < 1e3


def test_a_difference_is_seen(monkeypatch):
    monkeypatch.setattr(
        "lambda_keras.applications.fold_batch_normalization",
        lambda model: create_model("lambda_resnet14", input_shape=(32, 32, 3)),
    )
    row = folding.compare("lambda_resnet14@32")
    assert row[folding.FOLDED] > 0.1 > 1e-5 > row[folding.ROUNDED]


@pytest.mark.slow
def test_table_and_json(tmp_path, capsys):
    output = tmp_path / "folding.json"
    command.main(["folding", "--models", "lambda_resnet14@32", "--output", str(output)])
    printed = capsys.readouterr().out
    assert "lambda_resnet14@32" in printed
    (row,) = json.loads(output.read_text())["rows"]
    assert 0 < row[folding.FOLDED] < 1e-5
    assert 0 <= row[folding.ROUNDED] < 1e-5
