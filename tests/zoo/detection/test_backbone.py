"""Keras 3 networks in tf_keras: variables, outputs and gradients, and the settings of tf_keras."""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from official.modeling import hyperparams
from official.vision.configs import common

from zoo.detection import experiment
from zoo.detection.experiment import Backbone, ZooNetwork, build_backbone
from zoo.registry import create_model
from zoo.variables import kernels

SIZE, DECAY = 64, 4e-5
L2 = tf_keras.regularizers.l2(DECAY / 2)
STEM = {"stem": "rs"}  # of the small network at strides 4 to 32
IMAGES = np.random.default_rng(0).normal(size=(2, SIZE, SIZE, 3)).astype("float32")


def backbone(weights=None, overrides=STEM, name="lambda_resnet14", regularizer=L2):
    config = ZooNetwork(name=name, weights=weights, overrides=hyperparams.Config(overrides))
    return build_backbone(
        input_specs=tf_keras.layers.InputSpec(shape=[None, SIZE, SIZE, 3]),
        backbone_config=Backbone(lambda_keras=config),
        norm_activation_config=common.NormActivation(norm_momentum=0.9, use_sync_bn=True),
        l2_regularizer=regularizer,
    )


@pytest.fixture(scope="module")
def shared():
    return backbone()


def of(variables):
    return [np.array(variable) for variable in variables]


def same(one, other):
    return [*map(np.array_equal, one, other)]


def test_features_are_those_of_the_network(shared):
    maps = shared(IMAGES, training=False)
    expected = shared.features(IMAGES, training=False)
    for level, stage in zip("2345", ("c2", "c3", "c4", "c5"), strict=True):
        np.testing.assert_array_equal(maps[level], expected[stage])
        side = SIZE // 2 ** int(level)
        assert maps[level].shape[1:] == shared.output_specs[level][1:]
        assert maps[level].shape[1:3] == (side, side)
    layers = shared.features._flatten_layers()
    norms = [one for one in layers if isinstance(one, keras.layers.BatchNormalization)]
    assert {(layer.momentum, layer.synchronized) for layer in norms} == {(0.9, True)}
    assert any("lambda" in layer.path for layer in norms)  # those within lambda layers, too


def test_only_training_reaches_batch_normalization(shared):
    moving = [v for v in shared.features.weights if v.name.startswith("moving_")]
    before = of(moving)
    shared(IMAGES, training=False)
    shared.trainable = False
    assert not shared.trainable_variables
    assert len(shared.non_trainable_variables) == len(shared.features.weights)
    shared(IMAGES, training=True)
    assert all(same(before, of(moving)))
    shared.trainable = True
    shared(IMAGES, training=True)
    assert not any(same(before, of(moving)))


def test_a_step_changes_every_variable(shared):
    trainable = shared.features.trainable_variables
    assert len(shared.trainable_variables) == len(trainable)
    assert len(shared.variables) == len(shared.features.weights)
    before = of(shared.trainable_variables)
    with tf.GradientTape() as tape:
        maps = shared(IMAGES, training=True)
        # Not a plain sum, whose gradient a batch normalization cancels.
        loss = sum(tf.reduce_sum(value**2) for value in maps.values())
    gradients = tape.gradient(loss, shared.trainable_variables)
    assert all(gradient is not None for gradient in gradients)
    optimizer = tf_keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.apply_gradients(zip(gradients, shared.trainable_variables, strict=True))
    # Gammas of 0 end the branches of a new network: what is before them has no gradient yet.
    kept = zip(trainable, same(before, of(trainable)), strict=True)
    assert not [variable.path for variable, one in kept if one and "_3_bn" in variable.path]


def test_weight_decay_is_on_every_kernel(shared):
    with tf.GradientTape() as tape:
        loss = tf.add_n(shared.losses)
    squares = sum(np.sum(np.square(kernel)) for kernel in of(kernels(shared.features)))
    assert float(loss) == pytest.approx(DECAY / 2 * squares, rel=1e-5)
    gradients = tape.gradient(loss, shared.trainable_variables)
    for variable, gradient in zip(shared.features.trainable_variables, gradients, strict=True):
        if variable.name.endswith("kernel"):
            np.testing.assert_allclose(gradient, DECAY * np.array(variable), rtol=1e-5)
        else:
            assert gradient is None


def test_half_precision_is_that_of_the_detector(shared, tmp_path):
    """A checkpoint is restored into layers of other names, which Keras numbers on."""
    before = of(shared.variables)
    for variable in shared.variables:
        variable.assign(tf.random.normal(variable.shape))
    path = tf.train.Checkpoint(model=shared).write(str(tmp_path / "ckpt"))
    with experiment.precision("mixed_bfloat16"):
        model = backbone()
        maps = model(IMAGES, training=True)
    assert {value.dtype for value in maps.values()} == {tf.bfloat16}
    assert {variable.dtype for variable in model.variables} == {tf.float32}
    tf.train.Checkpoint(model=model).read(path).assert_consumed()
    assert all(same(of(shared.features.weights), of(model.features.weights)))
    for variable, value in zip(shared.variables, before, strict=True):
        variable.assign(value)


def test_weights_of_a_classifier(tmp_path):
    network = create_model("lambda_resnet14", input_shape=(SIZE, SIZE, 3), classes=3, **STEM)
    path = tmp_path / "classifier.weights.h5"
    network.save_weights(path)
    model = backbone(weights=str(path), regularizer=None)
    assert len(model.features.weights) == len(network.weights) - 2
    assert all(same(of(model.features.weights), of(network.weights)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"overrides": {}}, r"\[4, 8, 16, 32\]. Received: lambda_resnet14 with strides \[1,"),
        ({"name": "resnet"}, "expected the name of a model"),
        ({"overrides": {"depth": 3}}, r"blocks=\(3, 4, 6, 3\) of residual networks"),
        ({"weights": "nothing.weights.h5"}, "nothing.weights.h5"),
    ],
)
def test_what_is_no_backbone_is_refused(arguments, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        backbone(**arguments)


@pytest.mark.slow
def test_two_devices_are_one():
    """In a process of its own: two strategies of several devices do not live in one."""
    script = str(Path(__file__).with_name("two_devices.py"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
