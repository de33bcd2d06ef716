"""Small networks, published sizes and measurements that the tests of the models share."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

from lambda_keras.applications import build
from lambda_keras.layers import LambdaLayer, SqueezeExcitation
from lambda_keras.models.resnet import build_resnet
from lambda_keras.models.specs import ResNetSpec
from support import backends

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))
FORMS = {  # of the families with seven depths: their columns of golden.json
    "lambda_resnet{}": "lambda_resnet",
    "lambda_resnet{}_c4": "lambda_resnet_c4",
    "resnet_rs{}": "resnet_rs_se",
    "resnet_rs{}_no_se": "resnet_rs_no_se",
}
STAGES = ("c2", "c3", "c4", "c5")
# Recipes of classifiers; tests/zoo/detection has those of detectors.
RECIPES = [
    file
    for file in sorted(Path("tpu_configs").glob("*.yaml"))
    if not file.stem.endswith(("_coco", "_shapes"))
]


def images(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal pixels of the given shape."""
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


TINY = {"num_heads": 2, "key_dim": 3, "scope": 3}


def tiny_spec(**changes) -> ResNetSpec:
    """Every kind of block in a few thousand weights: lambda layers with and without stride."""
    fields = {"blocks": (2, 1, 1, 2), "mixer_blocks": ((), (), (1,), (1, 2)), "filters": 4}
    fields |= {"stem": "small", "shortcut": "pool", "arguments": {"lambda": TINY}}
    fields |= {"squeeze_excitation": (True, True, False, False)}
    return ResNetSpec(**{**fields, **changes})


def tiny_model(
    input_shape=(16, 16, 3), classes=5, classifier_activation=None, **changes
) -> keras.Model:
    return build_resnet(
        tiny_spec(**changes),
        keras.Input(input_shape),
        classes=classes,
        classifier_activation=classifier_activation,
    )


def without_gradient(model: keras.Model, inputs, cotangent, least=0.0) -> list[str]:
    """Variables of a randomized network whose gradients in training are zero or not finite."""
    randomize(model)
    _, (by_images,), gradients = backends.output_and_gradients(
        model, [inputs], cotangent, training=True
    )
    assert np.any(by_images)
    paths = [variable.path for variable in model.trainable_variables]
    found = zip(paths, gradients, strict=True)
    return [path for path, g in found if not (np.all(np.isfinite(g)) and np.abs(g).max() > least)]


def inner_layers(model: keras.Model | keras.Layer, kind) -> list:
    """Layers of a kind, those within other layers, too."""
    return [layer for layer in model._flatten_layers() if isinstance(layer, kind)]


def trainable_parameters(model: keras.Model) -> int:
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)


def block_names(blocks) -> list[str]:
    return [
        f"{stage}_block{block}"
        for stage, number in zip(STAGES, blocks, strict=True)
        for block in range(1, number + 1)
    ]


def blocks_with(model: keras.Model, layer_type: type | tuple[type, ...]) -> list[str]:
    """Names of the blocks that have a layer of a type, or of several, by their order."""
    found = [layer.name.split("_") for layer in model.layers if isinstance(layer, layer_type)]
    return ["_".join(name[:2]) for name in found]


def lambda_blocks(model: keras.Model) -> list[str]:
    return blocks_with(model, LambdaLayer)


def squeeze_excitation_blocks(model: keras.Model) -> list[str]:
    return blocks_with(model, SqueezeExcitation)


def values(variables) -> list[np.ndarray]:
    """Copies of the values of variables."""
    return [np.array(ops.convert_to_numpy(variable)) for variable in variables]


def assert_same(received, expected) -> None:
    """Two models or layers, lists of variables or of arrays, have equal values in their order."""
    pair = [getattr(one, "weights", one) for one in (received, expected)]
    for one, other in zip(*map(values, pair), strict=True):
        np.testing.assert_array_equal(one, other)


@contextmanager
def refused(model: keras.Model, match: str) -> Iterator[pytest.ExceptionInfo]:
    """Expects a ValueError that leaves a model as it was."""
    before = values(model.variables)
    with pytest.raises(ValueError, match=match) as caught:
        yield caught
    assert_same(model.variables, before)


def randomize(model: keras.Model) -> None:
    """Moves gammas, betas, biases and statistics away from 0 and 1.

    A new network ignores all but its shortcuts, because the last gammas of its blocks are 0; and
    while the betas of the values are 0, the next normalization hides the gammas of the values.
    """
    rng = np.random.default_rng(1)
    for variable in model.weights:
        if len(variable.shape) == 1:
            variable.assign(ops.convert_to_numpy(variable) + rng.uniform(0.1, 0.3, variable.shape))
    for layer in model.layers:
        if layer.name == "predictions":  # A saturated softmax would hide differences.
            layer.kernel.assign(0.1 * layer.kernel)


def calibrate(model: keras.Model, inputs: np.ndarray) -> None:
    """Sets all moving statistics to those of a batch: else deep networks explode or vanish."""
    layers = inner_layers(model, keras.layers.BatchNormalization)
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 0.0
    model(inputs, training=True)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum


def predict(model: keras.Model, inputs: np.ndarray) -> np.ndarray:
    """As `model.predict` gives them, without the seconds to compile it."""
    return np.asarray(ops.convert_to_numpy(model(inputs, training=False)), "float32")


def shrunk(spec: ResNetSpec) -> ResNetSpec:
    """A spec with at most two blocks in a stage, of every kind that the stage has."""
    kept = tuple(min(number, 2) for number in spec.blocks)

    # The last one where none is left.
    mixer_blocks = tuple(
        tuple(number for number in numbers if number <= count) or (count,) * bool(numbers)
        for numbers, count in zip(spec.mixer_blocks, kept, strict=True)
    )
    filters = min(spec.filters, 16)
    return replace(spec, blocks=kept, filters=filters, mixer_blocks=mixer_blocks)


@contextmanager
def undrawn() -> Iterator[None]:
    """Initializes weights to zeros: random numbers take most of the time of large networks."""
    with pytest.MonkeyPatch.context() as patch:
        zeros = lambda _, shape, dtype=None: ops.zeros(shape, dtype)  # noqa: E731
        patch.setattr(keras.initializers.VarianceScaling, "__call__", zeros)
        yield


@contextmanager
def unbuilt() -> Iterator[None]:
    """Fails at the first layer that is called."""
    fail = lambda *_, **__: pytest.fail("the network came first")  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.layers.Layer, "__call__", fail)
        yield


@contextmanager
def specs_alone() -> Iterator[None]:
    """Makes constructors return their spec in place of the model."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in build.BUILDERS:
            patch.setitem(build.BUILDERS, kind, lambda spec, *_, **__: spec)
        yield


def layer_errors(model: keras.Model, other: keras.Model, inputs: np.ndarray) -> dict[str, float]:
    """Largest difference between the layers of two models in parts of the largest output.

    Each layer of the other gets what its counterpart in the model gets, so that differences do not
    add up.
    """
    tensors = [layer.output for layer in model.layers]
    outputs = keras.Model(model.input, tensors)(inputs, training=False)
    known = {id(tensor): output for tensor, output in zip(tensors, outputs, strict=True)}
    errors = {}
    for layer, exact in zip(model.layers[1:], outputs[1:], strict=True):
        arguments = keras.tree.map_structure(lambda tensor: known[id(tensor)], layer.input)
        exact = ops.convert_to_numpy(exact)
        received = other.get_layer(layer.name)(arguments, training=False)
        received = ops.convert_to_numpy(ops.cast(received, "float32"))
        errors[layer.name] = np.abs(received - exact).max() / max(np.abs(exact).max(), 1e-6)
    return errors


def few_layers(*layers) -> keras.Model:
    """A classifier of three classes for images of 4x4: some layers, pooling, a dense layer."""
    x = inputs = keras.Input((4, 4, 3))
    head = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3, name="predictions")]
    for layer in [*layers, *head]:
        x = layer(x)
    return keras.Model(inputs, x, name="tiny")


def linear_model(input_shape=(8, 8, 3), classes=10, **_) -> keras.Model:
    """A classifier that compiles in a second, with batch normalisation and dropout."""
    inputs = keras.Input(input_shape)
    x = keras.layers.Conv2D(6, 3, strides=2, name="c2_block1_conv")(inputs)
    x = keras.layers.BatchNormalization(momentum=0.8, name="c2_block1_bn")(x)
    x = keras.layers.Flatten()(keras.layers.Activation("silu", name="c2")(x))
    x = keras.layers.Dropout(0.1)(x)
    outputs = keras.layers.Dense(classes, activation="softmax", name="predictions")(x)
    return keras.Model(inputs, outputs, name="linear")
