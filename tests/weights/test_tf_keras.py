"""Weights files of tf_keras' ResNet-RS and MobileNetV2, and their outputs for them."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from support import networks
from support.arrays import to_numpy

from lambda_keras.applications import MobileNetV2, ResNetRS50, ResNetRS101, preprocess_input
from lambda_keras.models.resnet import build_resnet
from lambda_keras.models.specs import resnet_rs
from lambda_keras.weights import load_weights
from lambda_keras.weights.fit import preparation

pytestmark = [
    pytest.mark.slow,
    pytest.mark.one_backend,  # tf_keras is TensorFlow's
    pytest.mark.filterwarnings("ignore::DeprecationWarning:tf_keras"),
]
TOLERANCE = 1e-5  # of the largest value


def of_tf_keras(depth, blocks, classes, size):
    """A network with weights and statistics that no initialisation gives; its stages too."""
    from tf_keras.src.applications.resnet_rs import ResNetRS

    repeats = [
        {"input_filters": width, "num_repeats": number}
        for width, number in zip((64, 128, 256, 512), blocks, strict=True)
    ]
    plain = {"weights": None, "classifier_activation": None, "include_preprocessing": False}
    model = ResNetRS(depth, input_shape=(*size, 3), block_args=repeats, classes=classes, **plain)
    randomize(model)
    return model


def randomize(model) -> None:
    rng = np.random.default_rng(0)
    for weight in model.weights:
        shape = tuple(weight.shape)
        if len(shape) > 1:
            weight.assign(rng.normal(0, np.prod(shape[:-1]) ** -0.5, shape))
        elif "variance" in weight.name or "gamma" in weight.name:
            weight.assign(rng.uniform(0.5, 1.0, shape))
        else:
            weight.assign(rng.normal(0, 0.1, shape))


def compare(theirs, ours, blocks, size) -> dict[str, float]:
    images = networks.images(2, *size, 3)
    names = [f"BlockGroup{n}__block_{number - 1}__output_act" for n, number in enumerate(blocks, 2)]
    return compare_layers(theirs, images, names, ours, images)


def compare_layers(theirs, their_images, names, ours, images) -> dict[str, float]:
    """Largest differences of the features of every stage and of the logits, relative."""
    import tf_keras

    outputs = [theirs.get_layer(name).output for name in names] + [theirs.output]
    expected = tf_keras.Model(theirs.input, outputs)(their_images, training=False)
    layers = [*networks.STAGES, "predictions"]
    features = keras.Model(ours.input, [ours.get_layer(name).output for name in layers])
    return {
        name: float(np.abs(one - to_numpy(two)).max() / np.abs(one).max())
        for name, one, two in zip(layers, expected, features(images, training=False), strict=True)
    }


BLOCKS = (1, 2, 1, 1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    theirs = of_tf_keras(50, BLOCKS, 7, (64, 48))
    path = tmp_path_factory.mktemp("tf_keras") / "resnet-rs.h5"
    theirs.save_weights(path)
    return theirs, path


@pytest.mark.parametrize("padding", ["fixed", "same"])
def test_outputs_are_those_of_tf_keras(saved, padding):
    """It is the padding that makes them so."""
    theirs, path = saved
    spec = replace(resnet_rs(50), blocks=BLOCKS, padding=padding)
    ours = build_resnet(spec, keras.Input((64, 48, 3)), classes=7, name="small")
    load_weights(ours, path, "small")
    differences = compare(theirs, ours, BLOCKS, (64, 48))
    assert (max(differences.values()) < TOLERANCE) == (padding == "fixed"), differences
    assert padding == "fixed" or differences["predictions"] > 0.02


@pytest.fixture(scope="module")
def mobilenet(tmp_path_factory):
    from tf_keras.applications import MobileNetV2 as TheirMobileNetV2

    theirs = TheirMobileNetV2((96, 64, 3), weights=None, classifier_activation=None)
    randomize(theirs)
    path = tmp_path_factory.mktemp("mobilenet") / "mobilenet_v2.h5"
    theirs.save_weights(path)
    return theirs, path


def test_mobilenet(mobilenet):
    """Their images are in [-1, 1], ours as for all networks: so borders are grey in both."""
    theirs, path = mobilenet
    ours = MobileNetV2(weights=path, classifier_activation=None)
    assert preparation(ours) >= {"input_rescaling"}  # which files are checked for
    pixels = np.random.default_rng(0).integers(0, 256, (2, 96, 64, 3))
    names = ["block_2_add", "block_5_add", "block_12_add", "block_16_project_BN"]
    inputs = preprocess_input(pixels.astype("uint8"))
    differences = compare_layers(theirs, pixels / 127.5 - 1, names, ours, inputs)
    print(f"MobileNetV2 at 96x64: {differences}")
    assert max(differences.values()) < TOLERANCE, differences


def test_mobilenet_of_other_classes_or_channels(mobilenet):
    _, path = mobilenet
    whole = MobileNetV2(weights=path)
    adapted = MobileNetV2(weights=path, classes=7, input_shape=(64, 64, 1), adapt_weights=True)
    networks.assert_same(MobileNetV2(weights=path, include_top=False), whole.weights[:-2])
    kernel, grey = (model.get_layer("stem_conv").kernel for model in (whole, adapted))
    np.testing.assert_allclose(np.sum(kernel, 2), np.array(grey)[:, :, 0], rtol=1e-6)


@pytest.mark.parametrize(
    ("depth", "blocks", "constructor", "size"),
    [
        (101, (3, 4, 23, 3), ResNetRS101, (192, 192)),
        (50, (3, 4, 6, 3), ResNetRS50, (97, 130)),
    ],
)
def test_whole_networks(depth, blocks, constructor, size, tmp_path):
    theirs = of_tf_keras(depth, blocks, 1000, size)
    path = tmp_path / "resnet-rs.h5"
    theirs.save_weights(path)
    ours = constructor(weights=path, classifier_activation=None)
    differences = compare(theirs, ours, blocks, size)
    print(f"ResNet-RS-{depth} at {size}: {differences}")
    assert max(differences.values()) < TOLERANCE, differences
