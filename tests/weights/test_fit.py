"""Whether weights fit a model."""

import keras
from support import networks

from lambda_keras.weights.fit import take_layers


class Other(keras.layers.Dense):
    """Has the name and the shapes of a dense layer, but is none."""


def test_layers_of_another_kind_are_left():
    source = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, name="a")])
    same, other = (
        keras.Sequential([keras.Input((4,)), kind(4, name="a")])
        for kind in (keras.layers.Dense, Other)
    )
    before = other.get_weights()
    assert take_layers(same, source) == []
    assert take_layers(other, source) == other.layers
    networks.assert_same(same, source)
    networks.assert_same(other.get_weights(), before)
