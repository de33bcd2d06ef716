"""Recipes on two devices, which the tests of this process do not have."""

import subprocess
import sys

import keras
import numpy as np
import pytest

pytestmark = pytest.mark.one_backend
PROGRAM = """
import sys
import numpy as np
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
from lambda_keras.layers import BatchNormalization
from zoo.devices import find_devices
from zoo.train.optimizer import OPTIMIZERS

found = {}
strategy = find_devices("mirrored").strategy
images = np.array([[0.0, 1.0], [2.0, 5.0], [4.0, -1.0], [-2.0, 3.0]], "float32")
gradients = np.array([[3.0, 0.0], [1.0, 4.0]], "float32")

def of_device(rows):
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(np.split(rows, 2)[context.replica_id_in_sync_group])
    )

with strategy.scope():
    for synchronized in (True, False):
        norm = BatchNormalization(synchronized=synchronized, momentum=0.0)
        norm.build((None, 2))
        outputs = strategy.run(lambda x: norm(x, training=True), (of_device(images),))
        found[f"outputs {synchronized}"] = strategy.gather(outputs, 0)
        found[f"means {synchronized}"] = norm.moving_mean
    for clipped in (None, 0.5):
        variable = keras.Variable([1.0, 2.0])
        optimizer = OPTIMIZERS["sgd"][0](learning_rate=1.0, global_clipnorm=clipped)
        optimizer.build([variable])
        strategy.run(lambda g: optimizer.apply([g[0]], [variable]), (of_device(gradients),))
        found[f"clipped {clipped}"] = variable
np.savez(sys.argv[1], images=images, **{k: np.asarray(v) for k, v in found.items()})
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, np.ndarray]:
    """Results of a process with two devices."""
    output = tmp_path_factory.mktemp("devices") / "found.npz"
    process = subprocess.run([sys.executable, "-c", PROGRAM, str(output)], capture_output=True)
    assert process.returncode == 0, process.stderr.decode()
    with np.load(output) as file:
        return dict(file)


@pytest.mark.slow
def test_synchronized_statistics_are_those_of_the_whole_batch(found):
    images = found["images"]
    norm = keras.layers.BatchNormalization()
    whole = keras.ops.convert_to_numpy(norm(images, training=True))
    parts = [keras.ops.convert_to_numpy(norm(part, training=True)) for part in np.split(images, 2)]
    np.testing.assert_allclose(found["outputs True"], whole, atol=1e-5)
    np.testing.assert_allclose(found["outputs False"], np.concatenate(parts), atol=1e-5)
    np.testing.assert_allclose(found["means True"], images.mean(0), atol=1e-6)


@pytest.mark.slow
def test_gradients_are_summed_once_and_then_clipped(found):
    np.testing.assert_allclose(found["clipped None"], [1 - 4, 2 - 4])
    shortened = 0.5 / np.sqrt(32)  # from the length of (4, 4)
    np.testing.assert_allclose(found["clipped 0.5"], [1 - 4 * shortened, 2 - 4 * shortened], 1e-6)
