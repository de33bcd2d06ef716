"""Weights of networks as safetensors, by the names of layers."""

import keras
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from support import networks
from support.zoo_weights import same_weights

from lambda_keras.applications import LambdaMobileNetV2, LambdaResNet14
from lambda_keras.weights import files, load_weights, save_safetensors
from lambda_keras.weights.fit import take_layers


@pytest.fixture
def file(tmp_path):
    """Random weights of a small network for three classes, and that network."""
    model, path = LambdaResNet14(filters=4, classes=3), tmp_path / "model.safetensors"
    save_safetensors(model, path)
    return path, model


def test_weights_survive_writing(file):
    path, model = file
    keras.utils.set_random_seed(1)
    other = LambdaResNet14(filters=4, classes=3)
    assert not same_weights(model, other)
    load_weights(other, path, "lambda_resnet14")
    assert same_weights(model, other)
    assert same_weights(model, LambdaResNet14(filters=4, classes=3, weights=path.parent))


@pytest.mark.one_backend
def test_names_are_those_of_layers(file):
    path, model = file
    with safe_open(path, "numpy") as opened:
        names = set(opened.keys())
        assert opened.metadata()["format"] == "lambda_keras"
    assert len(names) == len(model.weights)
    assert {"predictions/kernel", "predictions/bias"} <= names
    assert any(name.endswith("_lambda/query_batch_norm/gamma") for name in names)


@pytest.mark.one_backend
@pytest.mark.parametrize("build", [LambdaResNet14, LambdaMobileNetV2])
def test_names_are_the_same_in_every_model(build):
    """Keras numbers layers of a process, which names must not show."""
    first, second = ([name for name, _ in files.named_weights(build(classes=2))] for _ in range(2))
    assert first == second


@pytest.mark.one_backend
def test_other_classes_layers_and_padding_are_refused(file):
    path, model = file
    with pytest.raises(ValueError, match=r"predictions/bias: expected \(4,\), received \(3,\)"):
        LambdaResNet14(filters=4, classes=4, weights=path)
    with pytest.raises(ValueError, match="do not fit the model"):
        LambdaResNet14(filters=4, classes=3, scope=5, weights=path)
    arrays = load_file(path)
    preparation = " ".join(sorted(files.preparation(model)))
    for other in (f"{preparation} other_pad", ""):  # one more, and none
        save_file(arrays, path, files.FORMAT | {"preparation": other})
        with networks.refused(model, r"only one of the two has the layer '.*_pad'"):
            load_weights(model, path, "lambda_resnet14")


class Other(keras.layers.Dense):
    """Has the name and the shapes of a dense layer, but is none."""


def test_layers_of_another_kind_are_left():
    source, same, other = (
        keras.Sequential([keras.Input((4,)), kind(4, name="a")])
        for kind in (keras.layers.Dense, keras.layers.Dense, Other)
    )
    before = other.get_weights()
    assert take_layers(same, source) == []
    assert take_layers(other, source) == other.layers
    networks.assert_same(same, source)
    networks.assert_same(other.get_weights(), before)
