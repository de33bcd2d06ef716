"""Choosing devices."""

import json
import subprocess
import sys

import keras
import pytest
import tensorflow as tf

from zoo import strategy
from zoo.config import DataConfig
from zoo.data import load_data
from zoo.inference import predict
from zoo.strategy import create_strategy, describe

TWO_CPUS = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
"""


def test_auto_on_one_cpu_is_one_device(monkeypatch):
    monkeypatch.delenv("TPU_NAME", raising=False)
    chosen = create_strategy("auto")
    assert chosen.num_replicas_in_sync == 1
    assert not isinstance(chosen, tf.distribute.MirroredStrategy)
    assert "1 replica" in describe(chosen)


@pytest.mark.parametrize(
    ("gpus", "tpu", "expected"),
    [(0, None, "one"), (1, None, "one"), (2, None, "mirrored"), (2, "t", "tpu"), (0, "t", "tpu")],
)
def test_auto_prefers_tpu_then_several_gpus(monkeypatch, gpus, tpu, expected):
    monkeypatch.delenv("TPU_NAME", raising=False)
    monkeypatch.setattr(strategy, "_devices", lambda kind: ["gpu"] * gpus if kind == "GPU" else [])
    monkeypatch.setattr(strategy, "_tpu_strategy", lambda name: "tpu")
    monkeypatch.setattr(strategy, "_mirrored_strategy", lambda: "mirrored")
    chosen = create_strategy("auto", tpu)
    assert (chosen if isinstance(chosen, str) else "one") == expected


def test_tpu_name_from_the_environment(monkeypatch):
    monkeypatch.setenv("TPU_NAME", "from-environment")
    monkeypatch.setattr(strategy, "_tpu_strategy", lambda name: name)
    assert create_strategy("auto") == "from-environment"
    assert create_strategy("auto", "named") == "named"


def test_devices_that_are_not_there(monkeypatch):
    monkeypatch.delenv("TPU_NAME", raising=False)
    with pytest.raises(ValueError, match="no TPU found"):
        create_strategy("tpu")
    with pytest.raises(ValueError, match="two or more devices"):
        create_strategy("mirrored")
    with pytest.raises(ValueError, match="Received: 'gpu'"):
        create_strategy("gpu")


@pytest.mark.slow
def test_training_on_two_devices(tmp_path):
    code = f"""{TWO_CPUS}
from zoo import train
train.main("--strategy mirrored --model.image_size 16 --training.epochs 1 "
           "--optimizer.warmup_epochs 0 --output_dir {tmp_path}/run".split())
try:
    train.main("--strategy mirrored --data.batch_size 63 --output_dir {tmp_path}/odd".split())
except ValueError as error:
    print(error)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "CPU, 2 replica(s)" in process.stdout
    assert "data.batch_size: expected a multiple of 2" in process.stdout
    # One device agrees with what two have found.
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    model = keras.models.load_model(tmp_path / "run" / "model.keras")
    images, labels = load_data(DataConfig(), 16).test.sample(1000)
    accuracy = (predict(model, images).argmax(-1) == labels).mean()
    assert metrics["test"]["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert not (tmp_path / "odd").exists()
