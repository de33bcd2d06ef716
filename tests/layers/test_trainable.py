"""Layers that were frozen before they are built: as a saved model builds them."""

import keras
import numpy as np
import pytest
from support import networks

from lambda_keras import layers

SIZES = {"filters": 8, "num_heads": 2}
ARGUMENTS = {
    "AugmentedConvolution": SIZES,
    "AxialAttention": SIZES,
    "GlobalAttention": SIZES,
    "HaloAttention": {**SIZES, "block_size": 2},
    "LambdaLayer": {**SIZES, "use_bias": True, "use_projection_bias": True},
    "LinearAttention": SIZES,
    "LocalAttention": SIZES,
    "StochasticDepth": {"rate": 0.5},
}


NAMES = [name for name in layers.__all__ if name != "LambdaCell"]


@pytest.mark.parametrize(
    ("name", "at_construction"), [(name, number % 2 == 0) for number, name in enumerate(NAMES)]
)
def test_frozen_before_it_is_built(name, at_construction):
    arguments = ARGUMENTS.get(name, {})
    layer = getattr(layers, name)(**arguments, trainable=not at_construction)
    layer.trainable = False
    layer.build((None, 4, 4, 8))
    assert layer.trainable_variables == []
    layer.trainable = True
    expected = getattr(layers, name)(**arguments)
    expected.build((None, 4, 4, 8))
    assert len(layer.trainable_variables) == len(expected.trainable_variables)


@pytest.mark.slow
def test_frozen_network_is_frozen_when_loaded(tmp_path):
    inputs = keras.Input((4, 3, 8))
    x = layers.AxialAttention(**ARGUMENTS["AxialAttention"])(inputs)
    x = layers.LambdaLayer(**ARGUMENTS["LambdaLayer"], scope=3)(layers.SqueezeExcitation()(x))
    backbone = keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(x), name="backbone")
    backbone.trainable = False
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(backbone(inputs)))
    model.compile("adam", "mse", jit_compile=False)
    data = {"x": networks.images(4, 4, 3, 8), "y": networks.images(4, 2), "verbose": 0}
    model.fit(**data)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for one in (model, loaded):
        names = [variable.path for variable in one.trainable_variables]
        assert names == ["head/kernel", "head/bias"]
    of_optimizers = (networks.values(one.optimizer.variables) for one in (model, loaded))
    for saved, received in zip(*of_optimizers, strict=True):
        np.testing.assert_array_equal(received, saved)
    loaded.fit(**data)
    of_backbones = (one.get_layer("backbone").get_weights() for one in (model, loaded))
    for saved, received in zip(*of_backbones, strict=True):
        np.testing.assert_array_equal(received, saved)
    heads = (one.get_layer("head").get_weights()[0] for one in (model, loaded))
    assert not np.array_equal(*heads)
