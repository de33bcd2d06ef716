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

import lambda_keras.layers

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


# Arguments of each public layer, and shape of its inputs.
MAPS = (1, 4, 4, 4)
SUBCLASSED = {
    "AugmentedConvolution": ({"filters": 8, "num_heads": 2, "value_filters": 4}, MAPS),
    "AxialAttention": ({"filters": 8, "num_heads": 2}, MAPS),
    "BatchNormalization": ({"momentum": 0.5}, MAPS),
    "DoubleAttention": ({"ratio": 0.5}, MAPS),
    "GlobalAttention": ({"filters": 8, "num_heads": 2}, MAPS),
    "HaloAttention": ({"filters": 8, "num_heads": 2, "block_size": 2}, MAPS),
    "LambdaLayer": ({"filters": 8, "scope": (3, 5)}, MAPS),
    "LinearAttention": ({"filters": 8, "num_heads": 2, "feature_map": "favor", "seed": 3}, MAPS),
    "LocalAttention": ({"filters": 8, "num_heads": 2, "scope": 3}, MAPS),
    "RelativePositionEmbedding": ({"scope": 3, "key_dim": 5}, MAPS),
    "SqueezeExcitation": ({"ratio": 0.5}, MAPS),
    "StochasticDepth": ({"rate": 0.25, "seed": 1}, MAPS),
    "LambdaCell": ({"grid": (None,)}, (1, 4)),
}


def test_every_public_layer_is_subclassed():
    assert SUBCLASSED.keys() == set(lambda_keras.layers.__all__)


@pytest.mark.parametrize("name", SUBCLASSED)
def test_a_subclass_with_arguments_of_its_own(name, tmp_path):
    """As of a layer of Keras: `get_config` adds what the subclass has; no attribute has the name.

    Its arguments are checked by nobody, whatever their annotations are.
    """
    base = getattr(lambda_keras.layers, name)

    class Own(base):
        def __init__(self, *args, drop: bool = 0.1, units=None, **kwargs):  # pyright: ignore
            super().__init__(*args, **kwargs)
            self.own = (drop, units)

        def get_config(self):
            return {**super().get_config(), "drop": self.own[0], "units": self.own[1]}

    arguments, shape = SUBCLASSED[name]
    if name == "LambdaCell":
        arguments = {"layer": lambda_keras.layers.LambdaLayer(8, causal=True), **arguments}
    layer = Own(drop=0.3, units="two", **arguments)
    again = Own.from_config(layer.get_config())
    assert again.own == (0.3, "two")
    assert {**again.get_config(), "layer": 0} == {**layer.get_config(), "layer": 0}
    if name == "LambdaCell":  # called with states
        return
    inputs = keras.Input(shape[1:], batch_size=1)
    keras.Model(inputs, layer(inputs)).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", {"Own": Own})
    (found,) = (one for one in loaded.layers if isinstance(one, Own))
    assert found.own == (0.3, "two")
    assert {name: getattr(found, name) for name in arguments} == arguments
