"""Networks by name: how they are read, what was published, and that their steps are Keras'."""

import math

import keras
import numpy as np
import pytest

from zoo.benchmark.backends import Torch, current_backend, random_tensor
from zoo.benchmark.models import FORWARD, TRAINING, KerasNetwork, TimmNetwork, ZooNetwork, parse


def test_names():
    """Of libraries and networks, with sizes, batches and arguments."""
    given = 8, "mixed_bfloat16"
    overrides = {"placement": "LLLL", "scope": 7, "use_content": False}
    text = "resnet50@160:placement=LLLL:scope=7:use_content=false"
    for expected in (
        ZooNetwork("lambda_resnet50@192", "lambda_resnet50", 192, {}, *given),
        ZooNetwork("lambda_resnet50", "lambda_resnet50", 160, {}, *given),
        KerasNetwork("keras.EfficientNetB3@300x64", "EfficientNetB3", 300, {}, 64, given[1]),
        TimmNetwork("timm.some_network@96", "some_network", 96, {}, *given),
        ZooNetwork(text, "resnet50", 160, overrides, *given),
    ):
        assert parse(expected.name, *given) == expected


@pytest.mark.parametrize("name", ["lambda_resnet14@32", "lambda_resnet14@32:folded=true"])
def test_forward_is_inference(tiny_networks, name):
    network = parse(name, 2)
    outputs = network.step(FORWARD, current_backend()).start()
    images = random_tensor((2, 32, 32, 3), "float32", 1)
    expected = network.built(images, training=False)
    np.testing.assert_allclose(
        *map(keras.ops.convert_to_numpy, (outputs, expected)), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("name", ["lambda_resnet14@32", "keras.MobileNet@32"])
def test_nothing_is_zero_that_training_would_change(tiny_networks, name):
    for weight in arrays(parse(name).built.trainable_variables):
        assert weight.all(), weight


def test_folded_network_does_not_train():
    with pytest.raises(ValueError, match="folded networks do not train"):
        parse("lambda_resnet14@32:folded=true").step(TRAINING, current_backend())


def arrays(tensors):
    return [np.array(keras.ops.convert_to_numpy(tensor)) for tensor in tensors]


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_training_step_is_that_of_fit(tiny_networks, dtype):
    network = parse("lambda_resnet14@32:classes=3", 2, dtype)
    model = network.built
    assert model.layers[1].compute_dtype == dtype.removeprefix("mixed_")
    assert keras.config.dtype_policy().name == "float32"
    step = network.step(TRAINING, current_backend())
    weights, statistics = arrays(model.trainable_variables), arrays(model.non_trainable_variables)
    outputs = step.start()
    if keras.backend.backend() == "jax":  # returns what the others assign
        logs, (trainable, others, optimizer, _) = outputs
    else:
        logs, trainable, others = outputs, model.trainable_variables, model.non_trainable_variables
        optimizer = model.optimizer.variables
    assert math.isfinite(logs["loss"])
    assert logs["loss"] > 0
    for before, after in zip(weights, arrays(trainable), strict=True):
        np.testing.assert_array_equal(before, after)
    moved = [not np.array_equal(*pair) for pair in zip(statistics, arrays(others), strict=True)]
    assert any(moved)
    assert len(optimizer) >= len(weights)  # one momentum each
    assert 1 in [int(count) for count in arrays(optimizer) if count.dtype.kind == "i"]  # iterations


@pytest.mark.needs("timm", "torch")
def test_timm():
    network = parse("timm.lambda_resnet26t@64")
    assert network.parameters == 10_958_272
    step = network.step(FORWARD, current_backend())
    assert isinstance(step.backend, Torch)
    outputs = step.start().numpy()
    assert outputs.shape == (1, 1000)
    for argument in ("channels_last", "compile"):
        other = parse(f"timm.lambda_resnet26t@64:{argument}=true").step(FORWARD, current_backend())
        np.testing.assert_allclose(other.start().numpy(), outputs, rtol=1e-2, atol=1e-3)
    training = parse("timm.lambda_resnet26t@64", 2).step(TRAINING, current_backend())
    assert 0 < float(training.start().detach()) < 100
    with pytest.raises(ValueError, match="such as lambda_resnet26t"):
        _ = parse("timm.lambda_resnet26@64").identity
