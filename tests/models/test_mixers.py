"""The layers that take the place of 3x3 convolutions, in whole networks."""

import keras
import numpy as np
import pytest
from support import backends, networks

from lambda_keras.applications import LambdaResNet14
from lambda_keras.layers import LambdaLayer
from lambda_keras.models.mixers import MIXERS, select_stage
from zoo.registry import create_model

LATER = ("local", "efficient", "relu")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in LATER]
ATTENTION = [name for name, mixer in MIXERS.items() if mixer.layer is not LambdaLayer]
QUICK = [name for name in ATTENTION if name not in LATER]


@pytest.mark.one_backend
def test_arguments_that_are_not_the_defaults_of_layers():
    assert {name: kind.arguments for name, kind in MIXERS.items() if kind.arguments} == {
        "content": {"position_embedding": None},
        "halo": {"block_size": 7},
        "augmented": {"attention_pool": (1, 2, 1, 1)},
        "efficient": {"feature_map": "softmax"},
        "linear": {"feature_map": "elu"},
        "favor": {"feature_map": "favor"},
        "relu": {"feature_map": "relu"},
    }


def small(mixer: str, **arguments) -> keras.Model:
    arguments = {"input_shape": (16, 12, 3), "classes": 5, **arguments}
    return create_model("lambda_resnet14", mixer=mixer, **arguments)


@pytest.mark.one_backend
@pytest.mark.parametrize("mixer", [*QUICK, *SLOW])
@networks.undrawn()
def test_attention_takes_the_place_of_lambda_layers(mixer):
    """Its hyper-parameters are its own, or those of the table; those of lambda layers are not."""
    kind, model = MIXERS[mixer], small(mixer)
    layers = [layer for layer in model.layers if isinstance(layer, kind.layer)]
    assert [layer.name for layer in layers] == ["c4_block1_2_attention", "c5_block1_2_attention"]
    assert networks.lambda_blocks(model) == []
    assert set(kind.defaults) | set(kind.arguments) <= layers[0].get_config().keys()
    for stage, (layer, filters) in enumerate(zip(layers, (64, 128), strict=True), start=2):
        own = {name: select_stage(value, stage) for name, value in kind.arguments.items()}
        expected = kind.layer(filters, strides=2, **own).get_config()
        received = layer.get_config()
        for name in (*kind.defaults, *kind.arguments, "filters", "strides"):
            assert received[name] == expected[name], name
        assert received.get("momentum", 0.9) == 0.9  # of the network, not the layer's default


@pytest.mark.parametrize("mixer", backends.elsewhere(["halo", "axial"], ["halo"]))
def test_every_trainable_variable_has_a_gradient(mixer):
    model = small(mixer, classifier_activation=None, num_heads=2)
    data, cotangent = networks.images(4, 16, 12, 3), networks.images(4, 5, seed=1)
    assert networks.without_gradient(model, data, cotangent) == []
    assert np.ptp(networks.predict(model, data), axis=0).max() > 1e-5, "images make no difference"


def test_arguments_reach_the_layers():
    arguments = {"block_size": 2, "halo_size": 1, "mask_padding": False, "key_dim": 4}
    model = small("halo", num_heads=(2, 4, 8, 16), placement="LCLL", **arguments)
    layers = [layer for layer in model.layers if isinstance(layer, MIXERS["halo"].layer)]
    assert [layer.num_heads for layer in layers] == [2, 8, 16]
    for layer in layers:
        assert {name: getattr(layer, name) for name in arguments} == arguments


@backends.slow_elsewhere
def test_content_is_the_lambda_layer_without_positions():
    # The scope, which nothing reads without positions, is the default in one and 7 in the other.
    without = {"position_embedding": None, "scope": 23}
    models = [small("content", key_dim=4), small("lambda", key_dim=4, **without)]
    assert models[0].get_config() == models[1].get_config()
    assert networks.lambda_blocks(models[0]) == ["c4_block1", "c5_block1"]


def test_strided_queries_replace_the_pooling():
    model = small("halo", block_size=4, strided_queries=True)
    layer = model.get_layer("c5_block1_2_attention")
    assert (layer.strides, layer.pool_strides) == (2, 1)


@pytest.mark.one_backend
def test_strides_are_those_of_the_first_block_of_a_later_stage():
    """Only there, blocks of 3 positions with strided queries are refused."""
    halo = {"block_size": 3, "strided_queries": True, "num_heads": 2}
    changes = {"mixer": "halo", "arguments": {"halo": halo}}
    networks.tiny_model(mixer_blocks=((1,), (), (), (2,)), **changes)
    with pytest.raises(ValueError, match="block_size to be divisible by strides"):
        networks.tiny_model(mixer_blocks=((1,), (1,), (), ()), **changes)


@pytest.mark.parametrize("mixer", backends.elsewhere(["halo", "linear"], ["linear"]))
def test_networks_for_images_of_every_size(mixer):
    model = LambdaResNet14(mixer=mixer, include_top=False)
    outputs = model(networks.images(1, 19, 26, 3), training=False)
    assert tuple(outputs.shape) == (1, 3, 4, 512)
