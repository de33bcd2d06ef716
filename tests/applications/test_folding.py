"""Folded networks answer like those they came from."""

import backends
import keras
import networks
import numpy as np
import pytest
from keras import layers

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
    # Those after lambda layers stay: their heads share values.
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
