"""Checks of a detector's training before the first step; test_loop.py trains, and takes minutes."""

import errno

import pytest
import tensorflow as tf

from zoo.config.detection import DetectionConfig
from zoo.devices import Devices, Host
from zoo.train import detection as loop


def test_resumed_runs_have_another_seed(tmp_path):
    """The same one would show the first images again."""
    assert loop._seed(5, str(tmp_path)) == 5
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(number=tf.Variable(0)), str(tmp_path), max_to_keep=1
    )
    manager.save(checkpoint_number=320)
    assert loop._seed(5, str(tmp_path)) == 325
    assert loop._seed(2**32 - 1, str(tmp_path)) == 319


@pytest.mark.parametrize("name", ["batch_size", "test_batch_size"])
def test_devices_divide_batches(name):
    config = DetectionConfig(data={"batch_size": 4, "test_batch_size": 4, name: 3})
    loop._check_devices(config, Devices(1, Host(), "CPU"))
    with pytest.raises(ValueError, match=rf"data\.{name}: expected a multiple of 2"):
        loop._check_devices(config, Devices(2, Host(), "CPU"))
    with pytest.raises(ValueError, match="expected the devices of one machine"):
        loop._check_devices(config, Devices(3, Host(0, 3), "CPU"))


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            tf.errors.ResourceExhaustedError(None, None, "ckpt-20; No space left on device"),
            OSError,
            r"No space left on device: '.*run'",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), OSError, r"device: '.*run'"),
        (
            tf.errors.DataLossError(None, None, "corrupted record at 7\n\t [[{{node x}}]]"),
            ValueError,
            r"^data\.dir: corrupted record at 7$",
        ),
        (RuntimeError("The loss value is NaN"), ValueError, "a lower optimizer.learning_rate"),
        (RuntimeError("anything else"), RuntimeError, "^anything else$"),
        (tf.errors.ResourceExhaustedError(None, None, "OOM"), tf.errors.OpError, "OOM"),
    ],
)
def test_errors_of_training(tmp_path, error, kind, message):
    with pytest.raises(kind, match=message), loop._in_one_line(tmp_path / "run"):
        raise error
