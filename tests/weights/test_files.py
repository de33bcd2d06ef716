"""Loading `.weights.h5` files, and refusing those that do not fit, or are no weights."""

from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from support import hub as stand_in
from support import networks
from support.arrays import to_numpy
from support.lfs import LFS_POINTER, PULL

from lambda_keras.applications import LambdaResNet14, LambdaResNet26T
from lambda_keras.weights import load_weights
from lambda_keras.weights.files import find_weights, read_tf_keras
from zoo.precision import precision

CLASSES = 3


def small(**arguments) -> keras.Model:
    return LambdaResNet14(**{"classes": CLASSES, "filters": 4, **arguments})


@pytest.fixture
def saved(tmp_path):
    """A network with random weights, and its file."""
    model = small()
    networks.randomize(model)
    path = tmp_path / "small.weights.h5"
    model.save_weights(path)
    return model, path


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ["input_rescaling", "stem_rescaling", "stem_pad"])
def test_inputs_that_are_scaled_or_padded_otherwise(name, tmp_path):
    """Weights are the same, outputs differ; networks of version 0.1 had no such layers."""
    layers = keras.layers
    prepare = layers.ZeroPadding2D(name=name) if "pad" in name else layers.Rescaling(2.0, name=name)
    plain, other = (networks.few_layers() for _ in range(2))
    prepared, again = (networks.few_layers(prepare) for _ in range(2))
    path = tmp_path / "tiny.weights.h5"
    message = rf"has the layer '{name}'\. Give the padding= .* have to be trained again"
    for source, same, different in ((plain, other, again), (prepared, again, other)):
        source.save_weights(path)
        load_weights(same, path, "tiny")
        networks.assert_same(same, source)
        with networks.refused(different, message):
            load_weights(different, path, "tiny")


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ["a.weights.h5", "a.safetensors", "folder"])
def test_home_folder(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / name / ("model.safetensors" if name == "folder" else "")
    path.parent.mkdir(exist_ok=True)
    path.touch()
    for weights in (f"~/{name}", Path("~", name)):
        assert find_weights(weights, "lambda_resnet14") == path


@pytest.mark.parametrize("arguments", [{}, {"include_top": False}])
def test_file_of_an_earlier_version(saved, arguments):
    """Its networks had no layer for what was not dropped, so that others had other numbers."""
    model, path = saved
    with h5py.File(path, "a") as file:
        for name in list(file["layers"]):
            file.move(f"layers/{name}", f"layers/{name}_99")
    loaded = small(weights=path, **arguments)
    expected = {weight.path: weight for weight in model.weights}
    networks.assert_same(loaded, [expected[weight.path] for weight in loaded.weights])


@pytest.mark.parametrize("policy", ["float16", "bfloat16"])
def test_weights_of_other_precisions(tmp_path, policy):
    path = tmp_path / "model.weights.h5"
    with precision(policy):
        model = small()
    model.save_weights(path)
    loaded = small(weights=path)
    dtypes = {keras.backend.standardize_dtype(one.dtype) for one in model.weights}
    assert dtypes == {policy, "float32"}  # the classifier's
    assert all(np.any(to_numpy(one)) for one in loaded.weights if "kernel" in one.path)
    networks.assert_same(loaded, [to_numpy(one) for one in model.weights])


@pytest.mark.parametrize("options", [{"adapt_weights": True}, {"include_top": False}])
def test_imagenet_weights_are_asked_for_with_other_classes(tmp_path, options):
    with stand_in.served(str(tmp_path)), pytest.raises(ValueError, match="that you may read"):
        LambdaResNet26T(classes=3, weights="imagenet", **options)


@pytest.mark.parametrize("channels", [1, 4, 6])
def test_adapted_to_other_channels(saved, channels):
    """Grey images, as one channel or as three, give the same outputs."""
    model, path = saved
    shape = (16, 16, channels)
    adapted = small(input_shape=shape, weights=path, adapt_weights=True)
    grey = networks.images(2, 16, 16, 1)
    expected = networks.predict(model, np.repeat(grey, 3, -1))
    received = networks.predict(adapted, np.repeat(grey, channels, -1))
    if channels == 4:  # red counts twice
        assert np.abs(received - expected).max() > 1e-4
    else:
        np.testing.assert_allclose(received, expected, atol=1e-6)
    with pytest.raises(ValueError, match=r"stem_conv/vars/0: expected .* received"):
        small(input_shape=shape, weights=path)


def test_adapted_from_weights_of_the_same_channels(tmp_path):
    """Which are not those of RGB images."""
    shape, path = (16, 16, 1), tmp_path / "gray.weights.h5"
    model = small(input_shape=shape)
    model.save_weights(path)
    other = small(input_shape=shape, classes=5, weights=path, adapt_weights=True)
    for layer in other.layers[:-1]:
        networks.assert_same(layer, model.get_layer(layer.name))
    with pytest.raises(ValueError, match=r"stem_conv/vars/0: expected \(.*, 3, \d+\), received"):
        small(input_shape=(16, 16, 2), weights=path, adapt_weights=True)


@pytest.mark.parametrize("adapt", [{}, {"adapt_weights": True}])
def test_layers_before_the_network(saved, adapt):
    model, path = saved
    front = keras.layers.Conv2D(3, 1)
    scaled = front(keras.layers.Rescaling(0.5)(keras.Input((16, 16, 3))))
    front.kernel.assign(np.eye(3)[None, None])
    whole = small(input_tensor=scaled, weights=path, **adapt)
    images = networks.images(2, 16, 16, 3)
    received, expected = networks.predict(whole, images), networks.predict(model, images / 2)
    np.testing.assert_allclose(received, expected, atol=1e-6)


def test_adapted_to_other_classes(saved):
    """The classifier is drawn anew; without the argument, nothing is taken."""
    model, path = saved
    keras.utils.set_random_seed(0)
    fresh = small(classes=5)
    keras.utils.set_random_seed(0)
    adapted = small(classes=5, weights=path, adapt_weights=True)
    for layer in adapted.layers:
        source = fresh if layer.name == "predictions" else model
        networks.assert_same(layer, source.get_layer(layer.name))
    message = r"number of classes.*predictions/vars/0: expected \(128, 5\), received \(128, 3\)"
    with pytest.raises(ValueError, match=message):
        small(classes=5, weights=path)
    networks.assert_same(small(weights=path, adapt_weights=True), model)


def write_keras_2(path, layers):
    """A file as Keras 2 wrote it, of the datasets of some layers."""
    with h5py.File(path, "w") as file:
        # Where names are too long for one attribute, they are in several.
        for number, name in enumerate(layers):
            file.attrs[f"layer_names{number}"] = [name.encode()]
            group = file.create_group(name)
            group.attrs["weight_names"] = [f"{name}/{key}:0".encode() for key in layers[name]]
            for key, options in layers[name].items():
                group.create_dataset(f"{name}/{key}:0", dtype="float32", **options)
    return path


def test_weights_of_keras_2_in_their_order(tmp_path):
    """As of its MobileNetV2; a model without classifier takes the rest."""
    model, other = (networks.few_layers(keras.layers.Conv2D(8, 1, name="stem")) for _ in range(2))
    backbone = keras.Model(other.input, other.layers[-2].output, name="tiny")
    expected = [value + 1 for value in networks.values(model.weights)]
    saved = {f"weight{number}": {"data": value} for number, value in enumerate(expected)}
    path = write_keras_2(tmp_path / "tiny.h5", {"all": saved})
    load_weights(model, path, "tiny")
    networks.assert_same(model.weights, expected)
    load_weights(backbone, path, "tiny")
    networks.assert_same(backbone.weights, expected[:-2])
    with pytest.raises(ValueError, match=r"'lambda_resnet14': expected \d+ tensors\. Received: 4"):
        small(weights=path)


@pytest.mark.parametrize("name", ["a.weights.h5", "a.h5", "a.safetensors", "model.safetensors"])
def test_pointers_of_git_lfs_are_named(tmp_path, name):
    """They stand in a clone for files that were not downloaded."""
    path = tmp_path / name
    path.write_bytes(LFS_POINTER)
    place = tmp_path if name.startswith("model") else path
    with pytest.raises(ValueError, match=rf"'{path}' \({PULL}\)$"):
        load_weights(networks.few_layers(), place, "tiny")


def test_stems_of_keras_2_have_any_number(tmp_path):
    """It counted those of a process."""
    ones = {"kernel": {"data": np.ones(2)}}
    path = write_keras_2(tmp_path / "model.h5", {"stem_7_conv": ones, "block_2_stem_3": ones})
    assert read_tf_keras(path).keys() == {"stem_1_conv/kernel", "block_2_stem_3/kernel"}


def test_layers_in_other_files_are_not_read(tmp_path):
    """Nor are arrays: tests/bad_inputs/test_weights.py has such files of Keras 3."""
    layers = {"a": {"kernel": {"shape": (2,)}}}
    other, linked = (write_keras_2(tmp_path / name, layers) for name in ("other.h5", "a.h5"))
    with h5py.File(linked, "a") as file:
        del file["a"]
        file["a"] = h5py.ExternalLink(str(other), "a")
    assert read_tf_keras(linked) == {}
