"""Training steps of TensorFlow without variables, and what TPUs lack."""

import subprocess

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import leftovers, networks

from tools.lowering import functional
from zoo.train.loop import TrainingModel

pytestmark = pytest.mark.one_backend
TPU_PYTHON = ".venv-tpu/bin/python"


def test_step_without_variables_is_the_same():
    """Weights, statistics, momenta, averages, seeds and metrics, in the order of the program."""
    network = networks.linear_model((6, 6, 3), 3)
    model = TrainingModel(network, 1, 1, ema=0.9)
    model.compile(keras.optimizers.SGD(0.1, 0.9), "categorical_crossentropy")
    model._maybe_symbolic_build()
    images = tf.constant(np.random.default_rng(0).random((4, 6, 6, 3)), "float32")
    labels = tf.one_hot([0, 1, 2, 0], 3)

    def train(images, labels):
        return model.train_step((images, labels))

    step, variables, others = functional(train, images, labels)
    before = [variable.read_value() for variable in variables]
    assert len(before) == len({id(variable) for variable in variables})
    updated, outputs = tf.function(step, autograph=False)(before, others)
    logs = tf.function(train, autograph=False)(images, labels)
    for value, variable in zip(updated, variables, strict=True):
        np.testing.assert_allclose(value, variable.read_value(), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(outputs, tf.nest.flatten(logs), rtol=1e-6)
    trained = {id(one.value) for one in (*network.variables, *model.averages.weights)}
    for variable, value, old in zip(variables, updated, before, strict=True):
        assert id(variable) not in trained or not np.array_equal(value, old)


def test_other_operations_of_variables_are_refused():
    variable = tf.Variable([1.0, 2.0])
    step, _, others = functional(lambda: variable.scatter_nd_add([[0]], [1.0]))
    with pytest.raises(ValueError, match=r"assigned\. Received: operation ResourceScatterN"):
        tf.function(step, autograph=False)([variable.read_value()], others)


@pytest.mark.slow
@pytest.mark.needs(TPU_PYTHON)
def test_operations_that_tpus_lack_fail():
    code = "import tensorflow as tf; from tools.lowering import lower; "
    code += "lower(lambda x: tf.image.resize(x, (8, 8), '{}'), tf.ones((1, 4, 4, 3)))"
    environment = {"TPU_SKIP_MDS_QUERY": "1", **leftovers.marks()}
    commands = [[TPU_PYTHON, "-c", code.format(method)] for method in ("bilinear", "bicubic")]
    options = {"capture_output": True, "text": True, "env": environment}
    runs = [subprocess.run(command, **options) for command in commands]
    assert [run.returncode for run in runs] == [0, 1]
    assert "ResizeBicubic" in runs[1].stderr
