"""Folded networks answer like those they came from."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers
from support import backends, networks

from lambda_keras.applications import (
    LambdaMobileNetV2,
    LambdaResNet14,
    LambdaResNet26T,
    ResNet50,
    feature_extractor,
    fold_batch_normalization,
)
from lambda_keras.layers import LambdaLayer

TOLERANCE = 1e-5  # of the largest value


def strange_statistics(model: keras.Model) -> None:
    """Statistics and gammas that no initialization gives."""
    networks.randomize(model)
    rng = np.random.default_rng(2)
    for weight in model.weights:
        if "moving_variance" in weight.path:
            weight.assign(rng.uniform(0.2, 3.0, weight.shape))


def difference(model: keras.Model, folded: keras.Model, images: np.ndarray) -> float:
    """Largest difference of all outputs, in parts of the largest value of each."""
    pairs = zip(
        keras.tree.flatten(model(images, training=False)),
        keras.tree.flatten(folded(images, training=False)),
        strict=True,
    )
    arrays = [[keras.ops.convert_to_numpy(one).astype("float64") for one in pair] for pair in pairs]
    return max(np.abs(one - other).max() / np.abs(one).max() for one, other in arrays)


def norms(model: keras.Model) -> list[str]:
    return [
        layer.name
        for layer in model._flatten_layers()
        if isinstance(layer, layers.BatchNormalization)
    ]


SHARED = {"query_normalization": "batch_softmax", "position_embedding": "shared", "scope": 7}
NETWORKS = [
    (LambdaResNet14, SHARED),
    (LambdaResNet14, {"scope": 7}),
    (LambdaResNet14, {"scope": 3, "query_normalization": "softmax"}),
    (LambdaResNet14, {"scope": 3, "query_normalization": None, "value_normalization": None}),
    (LambdaResNet26T, {"include_top": False, "pooling": "max"}),
    (LambdaMobileNetV2, {}),
]


@pytest.mark.parametrize("network", backends.elsewhere(NETWORKS, NETWORKS[:1]))
def test_answers_alike(network):
    constructor, arguments = network
    model = constructor(input_shape=(64, 64, 3), classifier_activation=None, **arguments)
    strange_statistics(model)
    before = networks.values(model.weights)
    folded = fold_batch_normalization(model)
    assert difference(model, folded, networks.images(2, 64, 64, 3)) < TOLERANCE
    assert [layer.name for layer in folded.layers] == [layer.name for layer in model.layers]
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(*networks.values([weight]), value)
    # Batch normalization after lambda layers stays: their heads share values.
    lambda_layers = [one for one in model.layers if isinstance(one, LambdaLayer)]
    assert len(norms(folded)) == len(lambda_layers)


def test_features():
    model = feature_extractor(LambdaResNet14(input_shape=(32, 32, 3), scope=7))
    strange_statistics(model)
    folded = fold_batch_normalization(model)
    assert difference(model, folded, networks.images(2, 32, 32, 3)) < TOLERANCE
    assert folded.output.keys() == {"c2", "c3", "c4", "c5"}


@pytest.mark.parametrize("mixer", ["global", "axial", "favor"])
def test_attention(mixer):
    """Batch normalizations within attention and after it stay."""
    model = LambdaResNet14(input_shape=(16, 16, 3), classifier_activation=None, mixer=mixer)
    strange_statistics(model)
    folded = fold_batch_normalization(model)
    assert difference(model, folded, networks.images(2, 16, 16, 3)) < TOLERANCE
    after = [f"{stage}_block1_2_bn" for stage in ("c4", "c5")]
    assert [name for name in norms(folded) if name.startswith(("c4_", "c5_"))] == after


@backends.slow_elsewhere
def test_network_without_lambda_layers_has_no_batch_normalization():
    folded = fold_batch_normalization(ResNet50(placement="CCCC", input_shape=(32, 32, 3)))
    assert norms(folded) == []


def test_every_kind_of_normalization_and_convolution():
    """With a bias before, without gamma or beta, depthwise with several outputs for a channel."""
    x = inputs = keras.Input((8, 8, 3))
    x = layers.Conv2D(4, 3, use_bias=True, name="biased")(x)
    x = layers.BatchNormalization(scale=False, name="biased_bn")(x)
    x = layers.DepthwiseConv2D(3, depth_multiplier=2, use_bias=False, name="depthwise")(x)
    x = layers.BatchNormalization(center=False, name="depthwise_bn")(x)
    x = layers.Dense(5, name="dense")(x)
    x = layers.BatchNormalization(name="dense_bn")(x)
    model = keras.Model(inputs, x)
    strange_statistics(model)
    folded = fold_batch_normalization(model)
    assert norms(folded) == []
    assert difference(model, folded, networks.images(2, 8, 8, 3)) < TOLERANCE


def test_sequential_model():
    model = keras.Sequential(
        [keras.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.BatchNormalization()]
    )
    strange_statistics(model)
    folded = fold_batch_normalization(model)
    assert norms(folded) == []
    assert difference(model, folded, networks.images(2, 8, 8, 3)) < TOLERANCE


def test_what_others_see_too_is_not_folded():
    inputs = keras.Input((8, 8, 3))
    seen = layers.Conv2D(4, 3, name="seen")(inputs)
    norm = layers.BatchNormalization(name="seen_bn")(seen)
    activated = layers.Conv2D(4, 3, activation="relu", name="activated")(norm)
    other = layers.BatchNormalization(name="activated_bn")(activated)
    shared = layers.Conv2D(3, 3, padding="same", name="shared")
    twice = layers.BatchNormalization(name="shared_bn")(shared(shared(inputs)))
    output = layers.Conv2D(4, 1, name="output")(inputs)
    last = layers.BatchNormalization(name="output_bn")(output)
    model = keras.Model(inputs, [seen, other, twice, output, last])
    strange_statistics(model)
    folded = fold_batch_normalization(model)
    assert sorted(norms(folded)) == ["activated_bn", "output_bn", "seen_bn", "shared_bn"]
    assert difference(model, folded, networks.images(2, 8, 8, 3)) < TOLERANCE


class Doubled:
    """Layers and models of a user, which compute something else than their bases."""

    def call(self, inputs, **arguments):
        return super().call(2 * inputs, **arguments)


Conv2D = type("Conv2D", (Doubled, layers.Conv2D), {})
Dense = type("Dense", (Doubled, layers.Dense), {})
Norm = type("Norm", (Doubled, layers.BatchNormalization), {})
Functional = type("Functional", (Doubled, keras.Model), {})

STAY = [
    ("another_axis", lambda x: layers.BatchNormalization(axis=1)(layers.Conv2D(8, 1)(x))),
    ("fixed_training", lambda x: layers.BatchNormalization()(layers.Dense(4)(x), training=True)),
    ("sum", lambda x: layers.BatchNormalization()(layers.Dense(4)(x) + layers.Dense(4)(x))),
    ("operation", lambda x: layers.BatchNormalization()(keras.ops.tanh(layers.Dense(4)(x)))),
    ("another_convolution", lambda x: layers.BatchNormalization()(Conv2D(4, 3)(x))),
    ("another_dense", lambda x: layers.BatchNormalization()(Dense(4)(x))),
    ("another_norm", lambda x: Norm()(layers.Dense(4)(x))),
]


@pytest.mark.parametrize("graph", [row[1] for row in STAY], ids=[row[0] for row in STAY])
def test_what_is_not_known_stays(graph):
    inputs = keras.Input((8, 8, 3))
    model = keras.Model(inputs, graph(inputs))
    strange_statistics(model)
    folded = fold_batch_normalization(model)
    assert len(norms(folded)) == 1
    assert difference(model, folded, networks.images(2, 8, 8, 3)) < TOLERANCE


def test_lambda_layer_in_training_stays():
    x = inputs = keras.Input((8, 8, 3))
    for training in (True, None):
        x = LambdaLayer(8, scope=3)(x, training=training)
    model = keras.Model(inputs, x)
    strange_statistics(model)
    folded = fold_batch_normalization(model)
    kept = [layer.value_normalization for layer in folded.layers if hasattr(layer, "scope")]
    assert kept == ["batch", None]
    assert difference(model, folded, networks.images(2, 8, 8, 3)) < TOLERANCE


@pytest.mark.parametrize("change", ["quantize", "enable_lora"])
def test_layers_with_other_weights_stay(change):
    """The convolution before the first normalization is folded all the same."""
    x = inputs = keras.Input((8, 8, 3))
    for layer in (layers.DepthwiseConv2D(3), layers.Dense(4, name="dense")):
        x = layers.BatchNormalization()(layer(x))
    model = keras.Model(inputs, x)
    strange_statistics(model)
    dense: Any = model.get_layer("dense")
    if change == "quantize":
        dense.quantize("int8")
    else:
        dense.enable_lora(2)
        dense.lora_kernel_b.assign(np.ones((2, 4)))
    folded = fold_batch_normalization(model)
    assert len(norms(folded)) == 1
    assert difference(model, folded, networks.images(2, 8, 8, 3)) < TOLERANCE


def test_inputs_by_their_name():
    inputs = keras.Input((8, 8, 3))
    outputs = layers.BatchNormalization()(inputs=layers.Dense(4)(inputs), training=False)
    model = keras.Model(inputs, outputs)
    strange_statistics(model)
    folded = fold_batch_normalization(model)
    assert norms(folded) == []
    assert difference(model, folded, networks.images(2, 8, 8, 3)) < TOLERANCE


def test_refuses_a_model_with_a_call_of_its_own():
    inputs = keras.Input((8, 8, 3))
    with pytest.raises(ValueError, match=r"a call of its own\. Received: model=.*Functional"):
        fold_batch_normalization(Functional(inputs, layers.Dense(1)(inputs)))


@backends.slow_elsewhere
def test_mixed_precision():
    """As near to float32 as the network before."""
    exact = LambdaResNet14(input_shape=(32, 32, 3), classes=10, scope=7)
    strange_statistics(exact)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        rounded = LambdaResNet14(input_shape=(32, 32, 3), classes=10, scope=7)
    finally:
        keras.config.set_dtype_policy("float32")
    rounded.set_weights(exact.get_weights())
    images = networks.images(4, 32, 32, 3)
    folded = fold_batch_normalization(rounded)
    assert folded.get_layer("c5").compute_dtype == "bfloat16"
    assert difference(exact, folded, images) < 3 * difference(exact, rounded, images) + 1e-3


def test_refuses_what_is_no_functional_model():
    with pytest.raises(ValueError, match=r"expected a functional keras\.Model. Received: a "):
        fold_batch_normalization(layers.Dense(1))
