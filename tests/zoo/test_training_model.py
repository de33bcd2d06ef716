"""`fit` on one device, on two, and on two workers, with several steps per execution."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import networks
import numpy as np
import pytest
import tensorflow as tf

from zoo.training_model import TrainingModel

TESTS = Path(__file__).parents[1]
# A smooth activation: at the corner of a ReLU rounding decides whether there is a gradient.
PROGRAM = """
import json, os, sys
kind, rank, steps_per_execution, ports, output = sys.argv[1:]
if kind == "workers":
    workers = [f"127.0.0.1:{port}" for port in ports.split(",")]
    task = {"type": "worker", "index": int(rank)}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
import tensorflow as tf
if kind == "workers":
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
else:
    devices = 2 if kind == "mirrored" else 1
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * devices
    tf.config.set_logical_device_configuration(cpu, logical)
    names = [f"CPU:{number}" for number in range(devices)]
    strategy = tf.distribute.get_strategy()
    if devices > 1:
        strategy = tf.distribute.MirroredStrategy(names)
import keras, networks, numpy as np
from zoo.training_model import TrainingModel
rng = np.random.default_rng(0)
images = rng.normal(size=(160, 16, 16, 3)).astype("float32")
labels = np.eye(5, dtype="float32")[rng.integers(0, 5, len(images))]
with strategy.scope():
    keras.utils.set_random_seed(0)
    network = networks.tiny_model(classifier_activation="softmax", activation="silu")
    for layer in network._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.synchronized = True
    model = TrainingModel(network, steps_per_epoch=6, evaluation_steps=3)
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        "categorical_crossentropy",
        metrics=["accuracy"],
        steps_per_execution=int(steps_per_execution),
        jit_compile=False,
    )
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
data = tf.data.Dataset.from_tensor_slices((images, labels)).with_options(options)
history = model.fit(
    data.batch(16, drop_remainder=True).repeat(),
    epochs=2,
    steps_per_epoch=6,
    validation_data=data.take(40).batch(16),
    validation_steps=3,
    shuffle=False,
    verbose=0,
).history
if rank == "0":
    assert int(model.optimizer.iterations.numpy()) == 12
    np.savez(output, *network.get_weights(), val_loss=history["val_loss"], loss=history["loss"])
"""


def run(folder: Path, kind: str, steps_per_execution: int) -> dict[str, np.ndarray]:
    """Weights and losses after two epochs of six steps."""
    ports = ",".join(str(free_port()) for _ in range(2))
    output = folder / f"{kind}{steps_per_execution}.npz"
    arguments = [str(steps_per_execution), ports, str(output)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, kind, str(rank), *arguments],
            env={**environment(), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2 if kind == "workers" else 1)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert "ran out of data" not in errors
    with np.load(output) as file:
        return dict(file)


def environment() -> dict[str, str]:
    import os

    paths = os.pathsep.join(map(str, (TESTS.parent, TESTS)))
    return {**os.environ, "PYTHONPATH": paths}


def free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.slow
def test_devices_and_workers_give_the_weights_of_one_device(tmp_path):
    """Six steps per epoch, four per execution: none is lost or done twice."""
    expected = run(tmp_path, "one", 1)
    for kind, steps_per_execution in (("one", 4), ("mirrored", 4), ("workers", 4)):
        received = run(tmp_path, kind, steps_per_execution)
        assert received.keys() == expected.keys()
        for name, array in expected.items():
            scale = max(np.abs(array).max(), 1e-3)
            error = np.abs(received[name] - array).max() / scale
            assert error < 3e-5, (kind, name, error)


@pytest.mark.parametrize("steps_per_execution", [1, 3, 7])
def test_epoch_has_its_steps(steps_per_execution):
    model = TrainingModel(networks.tiny_model(), steps_per_epoch=5, evaluation_steps=2)
    model.compile(
        keras.optimizers.SGD(0.01),
        "mse",
        steps_per_execution=steps_per_execution,
        jit_compile=False,
    )
    batch = (networks.images(2, 16, 16, 3), np.eye(5, dtype="float32")[:2])
    data = tf.data.Dataset.from_tensors(batch).repeat()
    model.fit(data, epochs=2, steps_per_epoch=5, verbose=0, shuffle=False)
    assert int(model.optimizer.iterations.numpy()) == 10


def test_shares_layers_and_weights():
    network = networks.tiny_model()
    model = TrainingModel(network, 1, 1)
    assert model.network is network
    assert [v.path for v in model.trainable_variables] == [
        v.path for v in network.trainable_variables
    ]
    assert json.loads(network.to_json())["class_name"] == "Functional"
