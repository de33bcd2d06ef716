"""Floating-point operations of models of Keras' layers; tests/zoo/test_flops.py has the zoo's."""

import keras
import pytest
from keras import layers

from lambda_keras.applications import LambdaResNet14, count_flops

N = 6 * 4  # positions of a map
FIRST = "channels_first"
BY_HAND = [
    (layers.Conv1D(5, 3, strides=2), (9, 2), 4 * 3 * 2 * 5),
    (layers.Conv2D(4, 3, padding="same", groups=2), (6, 4, 2), N * 9 * 1 * 4),
    (layers.Conv2D(4, 3, padding="same", dilation_rate=2), (6, 4, 2), N * 9 * 2 * 4),
    (layers.Conv2D(4, 3, padding="same", data_format=FIRST), (2, 6, 4), N * 9 * 2 * 4),
    (layers.Conv2DTranspose(5, 3, strides=2, data_format=FIRST), (2, 6, 4), N * 9 * 2 * 5),
    (layers.SeparableConv2D(5, 3, padding="same", data_format=FIRST), (2, 6, 4), N * 28),
    (layers.Conv3D(5, 2), (3, 3, 3, 2), 8 * 8 * 2 * 5),
    (layers.Conv2DTranspose(5, 3, strides=2, padding="same"), (6, 4, 2), N * 9 * 2 * 5),
    (layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2), (6, 4, 3), N * 9 * 3 * 2),
    (layers.SeparableConv2D(5, 3, padding="same"), (6, 4, 2), N * (9 * 2 + 2 * 5)),
    (layers.Dense(5), (6, 4, 2), N * 2 * 5),
    (layers.EinsumDense("abc,cde->abde", (None, 3, 7)), (6, 5), 6 * 5 * 3 * 7),
    (layers.EinsumDense("...c,cd->...d", 7), (6, 4, 5), N * 5 * 7),
    (layers.LayerNormalization(), (6, 4, 2), 0),
    (layers.GroupNormalization(2), (6, 4, 2), 0),
    (layers.Activation("gelu"), (6, 4, 2), 0),
]


@pytest.mark.parametrize(
    ("layer", "shape", "products"), BY_HAND, ids=[type(row[0]).__name__ for row in BY_HAND]
)
def test_layers_of_keras_by_hand(layer, shape, products):
    inputs = keras.Input(shape)
    assert count_flops(keras.Model(inputs, layer(inputs))) == 2 * products


def test_attention_of_keras_by_hand():
    queries, values = keras.Input((6, 5)), keras.Input((9, 4))
    layer = layers.MultiHeadAttention(num_heads=2, key_dim=3, value_dim=8, output_shape=7)
    model = keras.Model([queries, values], layer(value=values, query=queries))
    projections = 6 * (5 * 2 * 3 + 2 * 8 * 7) + 9 * (4 * 2 * 3 + 4 * 2 * 8)
    assert count_flops(model) == 2 * (projections + 6 * 9 * 2 * (3 + 8))


def test_shared_layers_and_models_within_models():
    inner = keras.Sequential([keras.Input((6,)), layers.Dense(6), layers.Dense(6)])
    inputs = keras.Input((6,))
    dense = layers.Dense(6)
    model = keras.Model(inputs, inner(dense(dense(inputs))) + dense(inputs))
    assert count_flops(model) == 2 * 36 * (3 + 2)
    keras.Model(inputs, dense(model.output))  # another model of the same layer
    assert count_flops(model) == 2 * 36 * (3 + 2)


def test_model_of_any_size_within_a_model_of_one():
    any_size = keras.Input((None, None, 3), name="map")
    convolution = layers.Conv2D(5, 1)
    one = keras.Model(any_size, convolution(any_size))
    several = keras.Model({"map": any_size}, convolution(any_size))
    in_order = keras.Sequential([any_size, convolution])
    inputs = keras.Input((4, 6, 3))
    for inner, given in ((one, inputs), (several, {"map": inputs}), (in_order, inputs)):
        assert count_flops(keras.Model(inputs, inner(given))) == 2 * 24 * 3 * 5


class Halved(layers.Layer):
    """A layer of a user."""

    def call(self, inputs):
        return inputs / 2


UNKNOWN = [
    (layers.LSTM(3, name="memory"), "Received: 'memory', a LSTM"),
    (layers.TimeDistributed(layers.Dense(2), name="each"), "Received: 'each', a TimeDistributed"),
    (lambda x: layers.Dot(2, name="dot")([x, x]), "Received: 'dot', a Dot"),
    (lambda x: keras.ops.matmul(x, keras.ops.transpose(x, (0, 2, 1))), ", a Matmul"),
    (lambda x: layers.Attention(name="look")([x, x]), "Received: 'look', a Attention"),
    (Halved(name="halved"), "Received: 'halved', a Halved"),
]


@pytest.mark.parametrize(("layer", "message"), UNKNOWN, ids=[row[1] for row in UNKNOWN])
def test_an_unknown_layer_is_named(layer, message):
    inputs = keras.Input((4, 4))
    with pytest.raises(ValueError, match="expected layers whose operations are known") as caught:
        count_flops(keras.Model(inputs, layer(inputs)))
    assert str(caught.value).endswith(message)


@pytest.mark.parametrize("model", [LambdaResNet14(), keras.Sequential([layers.Dense(1)]), None])
def test_what_has_no_size_is_refused(model):
    with pytest.raises(ValueError, match=r"expected a .*Received: "):
        count_flops(model)


class Scaled(Halved):
    """A layer of a user that knows its operations."""

    def count_flops(self, inputs_shape):
        return {"scaling": inputs_shape[1] * inputs_shape[2]}


def test_a_layer_that_counts_itself():
    inputs = keras.Input((4, 6))
    assert count_flops(keras.Model(inputs, Scaled()(inputs))) == 24
