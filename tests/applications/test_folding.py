"""Folded networks compute what those did that they came from."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers
from support import networks
from support.arrays import assert_near

from lambda_keras.applications import LambdaResNet26T, feature_extractor, fold_batch_normalization
from lambda_keras.layers import LambdaLayer
from zoo.precision import precision
from zoo.registry import create_model


def strange_statistics(model: keras.Model) -> None:
    """Statistics and gammas that no initialization gives."""
    networks.randomize(model)
    rng = np.random.default_rng(2)
    for weight in model.weights:
        if "moving_variance" in weight.path:
            weight.assign(rng.uniform(0.2, 3.0, weight.shape))


def norms(model: keras.Model) -> list[str]:
    return [layer.name for layer in networks.inner_layers(model, layers.BatchNormalization)]


def folded_alike(model: keras.Model, size: int = 8) -> keras.Model:
    """Folds a model; all outputs differ by rounding only, in parts of the largest value of each."""
    strange_statistics(model)
    before = networks.values(model.weights)
    folded = fold_batch_normalization(model)
    images = networks.images(2, size, size, 3)
    outputs = (keras.tree.flatten(each(images, training=False)) for each in (folded, model))
    for received, expected in zip(*map(networks.values, outputs), strict=True):
        assert_near(received, expected)
    kept = (
        [one for one in m.layers if not isinstance(one, layers.InputLayer)] for m in (model, folded)
    )
    names, same_names = ([layer.name for layer in one] for one in kept)
    assert names == same_names
    networks.assert_same(model.weights, before)
    return folded


SHARED = {"query_normalization": "batch_softmax", "position_embedding": "shared", "scope": 7}
TINY = {"input_shape": (16, 16, 3), "classifier_activation": None, "filters": 4}


PLAIN = {"scope": 3, "query_normalization": None, "value_normalization": None}
SOFTMAX = {"scope": 3, "query_normalization": "softmax"}


@pytest.mark.parametrize("arguments", [SHARED, SOFTMAX, PLAIN, {"mixer": "axial"}])
def test_small_networks(arguments):
    """Normalization after lambda layers stays: their heads share values. So do attention's."""
    folded = folded_alike(create_model("lambda_resnet14", **TINY, **arguments), 16)
    after = [f"{stage}_block1_2_bn" for stage in ("c4", "c5")]
    assert [name for name in norms(folded) if name.startswith(("c4_", "c5_"))] == after
    assert len(norms(folded)) == 2 or "mixer" in arguments


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "float32"])
def test_another_precision(dtype):
    """All layers compute in it but the last one; from bfloat16 back to float32, too."""
    with precision("float32" if dtype == "mixed_bfloat16" else "mixed_bfloat16"):
        model = create_model("lambda_resnet14", **TINY)
    strange_statistics(model)
    folded = fold_batch_normalization(model, dtype)
    policies = {layer.name: layer.dtype_policy.name for layer in folded.layers[1:]}
    assert policies.pop("predictions") == "float32"
    assert set(policies.values()) == {dtype}
    exact = fold_batch_normalization(model, "float32")
    images = networks.images(2, 16, 16, 3)
    one, other = (networks.predict(each, images) for each in (exact, folded))
    error = np.abs(one - other).max() / np.abs(one).max()
    assert (1e-4 < error < 0.05) if dtype == "mixed_bfloat16" else error == 0


@pytest.mark.slow
def test_a_large_network():
    model = LambdaResNet26T(include_top=False, pooling="max", input_shape=(64, 64, 3))
    assert len(norms(folded_alike(feature_extractor(model), 64))) == 3


def test_every_kind_of_normalization_and_convolution():
    """With a bias before, without gamma or beta, depthwise with several outputs for a channel."""
    x = inputs = keras.Input((8, 8, 3))
    x = layers.Conv2D(4, 3, use_bias=True, name="biased")(x)
    x = layers.BatchNormalization(scale=False, name="biased_bn")(x)
    x = layers.DepthwiseConv2D(3, depth_multiplier=2, use_bias=False, name="depthwise")(x)
    x = layers.BatchNormalization(center=False, name="depthwise_bn")(x)
    x = layers.Dense(5, name="dense")(x)
    x = layers.BatchNormalization(name="dense_bn")(inputs=x, training=False)
    assert norms(folded_alike(keras.Model(inputs, x))) == []
    sequential = keras.Sequential([inputs, layers.Conv2D(4, 3), layers.BatchNormalization()])
    assert norms(folded_alike(sequential)) == []


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
    folded = folded_alike(keras.Model(inputs, [seen, other, twice, output, last]))
    assert sorted(norms(folded)) == ["activated_bn", "output_bn", "seen_bn", "shared_bn"]


class Doubled:
    """Layers and models of a user, which compute something else than their bases."""

    def call(self, inputs, **arguments):
        return super().call(2 * inputs, **arguments)


Conv2D = type("Conv2D", (Doubled, layers.Conv2D), {})
Dense = type("Dense", (Doubled, layers.Dense), {})
Norm = type("Norm", (Doubled, layers.BatchNormalization), {})
Functional = type("Functional", (Doubled, keras.Model), {})


UNKNOWN = [
    lambda x: layers.BatchNormalization(axis=1)(layers.Conv2D(8, 1)(x)),
    lambda x: layers.BatchNormalization()(layers.Dense(4)(x), training=True),
    lambda x: layers.BatchNormalization()(layers.Dense(4)(x) + layers.Dense(4)(x)),
    lambda x: layers.BatchNormalization()(keras.ops.tanh(layers.Dense(4)(x))),
    lambda x: layers.BatchNormalization()(Conv2D(4, 3)(x)),
    lambda x: layers.BatchNormalization()(Dense(4)(x)),
    lambda x: Norm()(layers.Dense(4)(x)),
]


@pytest.mark.parametrize("graph", UNKNOWN)
def test_what_is_not_known_stays(graph):
    inputs = keras.Input((8, 8, 3))
    assert len(norms(folded_alike(keras.Model(inputs, graph(inputs))))) == 1


def test_lambda_layer_in_training_stays():
    x = inputs = keras.Input((8, 8, 3))
    for training in (True, None):
        x = LambdaLayer(8, scope=3)(x, training=training)
    folded = folded_alike(keras.Model(inputs, x))
    kept = [layer.value_normalization for layer in folded.layers if hasattr(layer, "scope")]
    assert kept == ["batch", None]


def small_network(**arguments: Any) -> keras.Model:
    x = inputs = keras.Input((8, 8, 3), **arguments)
    x = layers.BatchNormalization()(layers.Conv2D(4, 3)(x))
    return keras.Model(inputs, layers.BatchNormalization()(layers.Dense(4)(x)), **arguments)


def test_folded_network_is_saved_and_folded_again(tmp_path):
    folded = folded_alike(small_network())
    folded.save(tmp_path / "folded.keras")
    images = networks.images(2, 8, 8, 3)
    expected = networks.predict(folded, images)
    loaded = keras.models.load_model(tmp_path / "folded.keras")
    np.testing.assert_allclose(networks.predict(loaded, images), expected, atol=1e-6)
    assert folded_alike(folded).count_params() == folded.count_params()


def test_normalization_of_adapted_statistics():
    scale = layers.Normalization()
    scale.adapt(np.random.default_rng(0).normal(5, 3, (9, 8, 8, 3)))
    x = inputs = keras.Input((8, 8, 3))
    model = keras.Model(inputs, layers.BatchNormalization()(layers.Conv2D(4, 3)(scale(x))))
    images, folded = networks.images(2, 8, 8, 3), fold_batch_normalization(model)
    assert_near(networks.predict(folded, images), networks.predict(model, images))


@pytest.mark.parametrize(("training", "kept"), [(None, 0), (False, 0), (True, 2)])
def test_model_within_a_model(training, kept):
    inputs = keras.Input((8, 8, 3))
    outputs = small_network(name="inner")(inputs, training=training)
    model = keras.Model(inputs, layers.Dense(2)(outputs))
    folded = fold_batch_normalization(model) if training else folded_alike(model)
    assert len(norms(folded)) == kept
    half = fold_batch_normalization(model, "mixed_bfloat16")
    inner: Any = half.get_layer("inner")
    assert inner.layers[1].compute_dtype == ("float32" if training else "bfloat16")


@pytest.mark.parametrize("change", ["quantize", "enable_lora"])
def test_layers_with_other_weights_stay(change):
    """The convolution before the first normalization is folded all the same."""
    x = inputs = keras.Input((8, 8, 3))
    for layer in (layers.DepthwiseConv2D(3), layers.Dense(4, name="dense")):
        x = layers.BatchNormalization()(layer(x))
    model = keras.Model(inputs, x)
    dense: Any = model.get_layer("dense")
    if change == "quantize":
        dense.quantize("int8")
    else:
        dense.enable_lora(2)
        dense.lora_kernel_b.assign(np.ones((2, 4)))
    assert len(norms(folded_alike(model))) == 1


def test_refuses_what_is_no_functional_model_or_has_a_call_of_its_own():
    with pytest.raises(ValueError, match=r"expected a functional keras\.Model. Received: a "):
        fold_batch_normalization(layers.Dense(1))
    inputs = keras.Input((8, 8, 3))
    with pytest.raises(ValueError, match=r"a call of its own\. Received: model=.*Functional"):
        fold_batch_normalization(Functional(inputs, layers.Dense(1)(inputs)))
