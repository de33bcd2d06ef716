"""Layers of every kind that were saved before their arguments became keyword-only.

`layers.keras` holds a model, written by version 0.1.0 in development (530f4e3): lambda layers of
every kind of position, stride and normalization, cells, attention and the other layers. The arrays
are its inputs and outputs, by name.
"""

import json
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest
from support import backends

import lambda_keras.layers  # noqa: F401 (registers the layers)

SAVED = Path(__file__).parents[1] / "fixtures/saved_layers"


def test_saved_configurations_load():
    """Without the weights, which takes a tenth of the time."""
    with zipfile.ZipFile(SAVED / "layers.keras") as archive:
        saved = json.loads(archive.read("config.json"))["config"]["layers"]
    configs = [one for one in saved if one["module"].startswith("lambda_keras")]
    assert len(configs) > 50
    for config in configs:
        layer = keras.saving.deserialize_keras_object(config)
        received = json.loads(json.dumps(layer.get_config(), default=str))
        for name, value in config["config"].items():
            assert received[name] == value or name in ("dtype", "layer"), (config["name"], name)


@pytest.mark.slow
@backends.slow_elsewhere
def test_saved_layers_give_the_same_outputs():
    model = keras.models.load_model(SAVED / "layers.keras")
    with np.load(SAVED / "arrays.npz") as arrays:
        saved = {name: arrays[name] for name in arrays.files}
    inputs = {name[7:]: value for name, value in saved.items() if name.startswith("inputs/")}
    outputs = {name[8:]: value for name, value in saved.items() if name.startswith("outputs/")}
    received = model(inputs)
    assert received.keys() == outputs.keys()
    for name, expected in outputs.items():
        found = keras.ops.convert_to_numpy(received[name])
        np.testing.assert_allclose(
            found, expected, atol=1e-5 * np.abs(expected).max(), err_msg=name
        )
