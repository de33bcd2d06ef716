"""The MobileNetV2 builder."""

import keras
import numpy as np
import pytest
from support import networks

from lambda_keras.applications import preprocess_input
from lambda_keras.models.mobilenet import build_mobilenet
from lambda_keras.models.specs import NETWORKS, MobileNetSpec

LAMBDA_MOBILENET_V2 = NETWORKS["lambda_mobilenet_v2"].spec


def build(spec: MobileNetSpec, input_shape=(None, None, 3), **arguments) -> keras.Model:
    return build_mobilenet(spec, keras.Input(input_shape), **arguments)


@pytest.fixture(scope="module")
@networks.undrawn()
def lambda_mobilenet() -> keras.Model:
    return build(LAMBDA_MOBILENET_V2)


@pytest.mark.one_backend
@networks.undrawn()
def test_parameters_of_table_17():
    """The other rows have names, whose counts test_registry.py and test_every_network.py hold."""
    one_pointwise = MobileNetSpec((10, 16), False, 1.0, LAMBDA_MOBILENET_V2.arguments)
    golden = networks.GOLDEN["table17_mobilenet_v2_224"]["lambda_10_16_one_pointwise"]
    assert networks.trainable_parameters(build(one_pointwise)) == golden["trainable_params"]


@pytest.mark.one_backend
@pytest.mark.parametrize("alpha", [0.4, pytest.param(1.4, marks=pytest.mark.slow)])
def test_plain_network_is_that_of_keras(alpha):
    """Same weights, same outputs: the layers of both are in the same order.

    0.4 x 24 channels are 16, as 8 would be less than 90 % of 9.6.
    """
    plain = {"weights": None, "classes": 7, "classifier_activation": None}
    reference = keras.applications.MobileNetV2((96, 64, 3), alpha=alpha, **plain)
    model = build(MobileNetSpec(alpha=alpha), (96, 64, 3), classes=7)
    normalizations = [one for one in model.layers if hasattr(one, "moving_variance")]
    assert {one.epsilon for one in normalizations} == {1e-3}
    networks.randomize(reference)
    model.set_weights(reference.get_weights())
    images = 255 * np.random.default_rng(0).random((2, 96, 64, 3))
    expected = networks.predict(reference, images / 127.5 - 1)
    received = networks.predict(model, preprocess_input(images))
    np.testing.assert_allclose(received, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.one_backend
def test_lambda_layers_sit_where_the_text_says(lambda_mobilenet):
    """D.3.2: in two blocks that keep their channels; 5x5 scope, k = 32, h = 4."""
    model = lambda_mobilenet
    assert networks.lambda_blocks(model) == ["block10_lambda", "block16_lambda"]
    for block, depth in (("block10", 64), ("block16", 160)):
        layer = model.get_layer(f"{block}_lambda")
        assert (layer.filters, layer.scope, layer.key_dim, layer.num_heads) == (depth, 5, 32, 4)
        assert model.get_layer(f"{block}_expand_conv").filters == depth


@pytest.mark.one_backend
def test_endpoints_lie_at_their_strides(lambda_mobilenet):
    names = [*networks.STAGES, "block10_lambda", "block16_lambda"]
    outputs = [lambda_mobilenet.get_layer(name).output for name in names]
    model = keras.Model(lambda_mobilenet.input, outputs)
    channels, strides = (24, 32, 96, 320, 64, 160), (4, 8, 16, 32, 16, 32)
    for size in ((64, 96), (37, 51)):
        assert model.compute_output_shape((None, *size, 3)) == [
            (None, *(-(-length // stride) for length in size), depth)
            for stride, depth in zip(strides, channels, strict=True)
        ]


@pytest.mark.one_backend
@pytest.mark.slow
def test_every_trainable_variable_has_a_gradient():
    """Without expansions before lambda layers; test_every_network.py has the network with them."""
    # A tenth of the width: the smallest that has channels for four heads everywhere.
    spec = MobileNetSpec((10, 16), False, 0.1, LAMBDA_MOBILENET_V2.arguments)
    model, cotangent = build(spec, (64, 64, 3), classes=5), networks.images(4, 5, seed=1)
    assert networks.without_gradient(model, networks.images(4, 64, 64, 3), cotangent) == []
