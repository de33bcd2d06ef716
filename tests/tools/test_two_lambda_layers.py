"""Two lambda layers in a block."""

import keras
import numpy as np
from support import networks

from lambda_keras.layers import LambdaLayer
from lambda_keras.models.mixers import MIXERS
from tools.two_lambda_layers import MIXER, NAME, TwoLambdaLayers
from zoo.registry import create_model


def test_is_two_layers_with_a_normalization_between():
    keras.utils.set_random_seed(0)
    arguments = {"num_heads": 2, "key_dim": 4, "scope": 3, "momentum": 0.5}
    layer, first = (kind(8, strides=2, **arguments) for kind in (TwoLambdaLayers, LambdaLayer))
    second, x = LambdaLayer(8, **arguments), networks.images(2, 6, 6, 8)
    assert layer(x).shape == first(x).shape == (2, 3, 3, 8)
    second.build((2, 3, 3, 8))
    assert not np.array_equal(layer.query_kernel, layer.second.query_kernel)
    weights = {one.path.partition("/")[2]: one for one in layer.weights}
    for one in first.weights:
        one.assign(weights[one.path.partition("/")[2]])
    second.set_weights(layer.second.get_weights())
    expected = second(keras.ops.relu(first(x) / np.sqrt(1 + layer.epsilon)))
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


def test_networks_have_it(monkeypatch):
    monkeypatch.setitem(MIXERS, NAME, MIXER[NAME])
    model = create_model("lambda_resnet14", classes=3, mixer=NAME, filters=4, key_dim=2)
    found = [layer for layer in model.layers if isinstance(layer, TwoLambdaLayers)]
    assert len(found) == 2
    assert {one.second.key_dim for one in found} == {2}
    assert {one.second.scope for one in found} == {7}
