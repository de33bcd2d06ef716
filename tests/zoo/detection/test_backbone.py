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
from zoo.registry import create_model, kernels

SIZE = 64
STEM = {"stem": "rs"}  # of the small network at strides 4 to 32


def backbone(regularizer=None, weights=None, overrides=STEM, name="lambda_resnet14"):
    config = ZooNetwork(name=name, weights=weights, overrides=hyperparams.Config(overrides))
    return build_backbone(
        input_specs=tf_keras.layers.InputSpec(shape=[None, SIZE, SIZE, 3]),
        backbone_config=Backbone(lambda_keras=config),
        norm_activation_config=common.NormActivation(norm_momentum=0.9, use_sync_bn=True),
        l2_regularizer=regularizer,
    )


def images(count=2):
    return np.random.default_rng(0).normal(size=(count, SIZE, SIZE, 3)).astype("float32")


def statistics(model):
    moving = [v for v in model.features.weights if v.name.startswith("moving_")]
    return [keras.ops.convert_to_numpy(variable) for variable in moving]


def of(variables):
    return [np.array(variable) for variable in variables]


def test_features_are_those_of_the_network():
    model = backbone()
    maps = model(images(), training=False)
    expected = model.features(images(), training=False)
    for level, stage in zip("2345", ("c2", "c3", "c4", "c5"), strict=True):
        np.testing.assert_array_equal(maps[level], expected[stage])
        side = SIZE // 2 ** int(level)
        assert maps[level].shape[1:] == model.output_specs[level][1:]
        assert maps[level].shape[1:3] == (side, side)


def test_training_reaches_batch_normalization():
    model = backbone()
    before = statistics(model)
    model(images(), training=False)
    assert all(map(np.array_equal, before, statistics(model)))
    model(images(), training=True)
    assert not any(map(np.array_equal, before, statistics(model)))


def test_batch_normalization_is_that_of_the_detector():
    norms = [
        layer
        for layer in backbone().features._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization)
    ]
    assert {layer.momentum for layer in norms} == {0.9}
    assert all(layer.synchronized for layer in norms)
    assert any("lambda" in layer.path for layer in norms)  # those within lambda layers, too


def test_a_step_changes_every_variable():
    model = backbone(tf_keras.regularizers.L2(1e-3))
    trainable = model.features.trainable_variables
    assert len(model.trainable_variables) == len(trainable)
    assert len(model.variables) == len(model.features.weights)
    before = of(model.trainable_variables)
    with tf.GradientTape() as tape:
        maps = model(images(), training=True)
        # Not a plain sum, whose gradient a batch normalization cancels.
        loss = sum(tf.reduce_sum(value**2) for value in maps.values())
    gradients = tape.gradient(loss, model.trainable_variables)
    assert all(gradient is not None for gradient in gradients)
    tf_keras.optimizers.SGD(0.1, momentum=0.9).apply_gradients(
        zip(gradients, model.trainable_variables, strict=True)
    )
    changed = [not np.array_equal(*pair) for pair in zip(before, of(trainable), strict=True)]
    # Gammas of 0 end the branches of a new network: what is before them has no gradient yet.
    moved = {variable.path for variable, one in zip(trainable, changed, strict=True) if one}
    assert {variable.path for variable in trainable if "_3_bn" in variable.path} <= moved


def test_weight_decay_is_on_every_kernel():
    decay = 4e-5
    model = backbone(tf_keras.regularizers.l2(decay / 2))
    with tf.GradientTape() as tape:
        loss = tf.add_n(model.losses)
    expected = sum(decay / 2 * np.sum(np.square(kernel)) for kernel in of(kernels(model.features)))
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    gradients = tape.gradient(loss, model.trainable_variables)
    for variable, gradient in zip(model.features.trainable_variables, gradients, strict=True):
        if variable.name.endswith("kernel"):
            np.testing.assert_allclose(gradient, decay * np.array(variable), rtol=1e-5)
        else:
            assert gradient is None


def test_frozen_backbone_stays_as_it_is():
    model = backbone()
    model.trainable = False
    before = of(model.features.weights)
    assert not model.trainable_variables
    assert len(model.non_trainable_variables) == len(before)
    model(images(), training=True)
    assert all(map(np.array_equal, before, of(model.features.weights)))


def test_half_precision_is_that_of_the_detector():
    with experiment.precision("mixed_bfloat16"):
        model = backbone()
        maps = model(images(), training=True)
    assert {value.dtype for value in maps.values()} == {tf.bfloat16}
    assert {variable.dtype for variable in model.variables} == {tf.float32}
    assert tf_keras.mixed_precision.global_policy().name == "float32"
    assert keras.config.dtype_policy().name == "float32"


def test_checkpoint_is_restored_into_layers_of_other_names(tmp_path):
    model = backbone()
    for variable in model.variables:
        variable.assign(tf.random.normal(variable.shape))
    path = tf.train.Checkpoint(model=model).write(str(tmp_path / "ckpt"))
    other = backbone()  # whose layers Keras numbers on
    tf.train.Checkpoint(model=other).read(path).assert_consumed()
    for one, same in zip(model.features.weights, other.features.weights, strict=True):
        np.testing.assert_array_equal(one, same)


def test_weights_of_a_classifier(tmp_path):
    network = create_model("lambda_resnet14", input_shape=(SIZE, SIZE, 3), classes=3, **STEM)
    path = tmp_path / "classifier.weights.h5"
    network.save_weights(path)
    model = backbone(weights=str(path))
    assert len(model.features.weights) == len(network.weights) - 2
    for one, same in zip(model.features.weights, network.weights, strict=False):
        np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"overrides": {}},
            r"strides \[4, 8, 16, 32\]. Received: lambda_resnet14 with strides \[1,",
        ),
        ({"name": "resnet"}, "expected the name of a model"),
        ({"overrides": {"depth": 3}}, "expected an argument of LambdaResNet14"),
        ({"weights": "nothing.weights.h5"}, "nothing.weights.h5"),
    ],
)
def test_what_is_no_backbone_is_refused(arguments, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        backbone(**arguments)


@pytest.mark.very_slow
def test_two_devices_are_one():
    """In a process of its own: two strategies of several devices do not live in one."""
    script = Path(__file__).with_name("two_devices.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    differences = dict(line.split() for line in done.stdout.splitlines()[-3:])
    assert differences.keys() == {"statistics", "gradients", "copies"}
    assert all(float(difference) < 1e-4 for difference in differences.values())
