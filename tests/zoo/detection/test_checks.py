"""Checks of a detector's training before the first step; test_loop.py trains, and takes minutes."""

import errno

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support.detectors import read, settings

from zoo.detection import convert
from zoo.detection.config import DetectionConfig
from zoo.detection.train import DetectionRun, in_one_line
from zoo.devices import Devices, Host, find_devices


@pytest.mark.parametrize(
    ("data", "replicas", "processes", "message"),
    [
        ({"batch_size": 3}, 2, 1, r"data\.batch_size: expected a multiple of 2"),
        ({"test_batch_size": 3}, 2, 1, r"data\.test_batch_size: expected a multiple of 2"),
        ({"batch_size": 3}, 3, 3, "expected the devices of one machine"),
        ({"batch_size": 13}, 1, 1, r"data\.batch_size: expected at most 12, the number of"),
    ],
)
def test_devices_and_images_are_those_of_whole_batches(sharded, data, replicas, processes, message):
    config = DetectionConfig(
        data={"dir": str(sharded), "batch_size": 4, "test_batch_size": 4, **data}
    )
    with pytest.raises(ValueError, match=message):
        DetectionRun(config, Devices(replicas, Host(0, processes), "CPU"), resumed=False).load()


def test_images_are_large_enough_at_the_smallest_scale(tmp_path):
    """70 x 1 pixels are 64 x 0.9 when resized to 64, and nothing at a tenth."""
    objects = [{"image_id": 1, "category_id": 1, "bbox": [1, 0, 9, 1]}]
    content = {"images": [{"id": 1, "file_name": "1.png"}], "annotations": objects}
    content |= {"categories": [{"id": 1, "name": "thread"}]}
    Image.new("RGB", (70, 1)).save(tmp_path / "1.png")
    thin = read(tmp_path, content)
    convert.write(thin, thin, tmp_path / "shards", 1)

    def load(scale):
        given = settings(tmp_path / "shards", tmp_path / "run")
        given["data"] |= {"batch_size": 1, "test_batch_size": 1, "scale_min": scale}
        DetectionRun(DetectionConfig(**given), Devices(1, Host(), "CPU"), resumed=False).load()

    load(1)
    with pytest.raises(ValueError, match=r"less than 12\.8 times as long as wide.* 70 x 1 pixels"):
        load(0.1)


FULL, OOM = "No space left on device", tf.errors.ResourceExhaustedError(None, None, "OOM")
DAMAGED = tf.errors.DataLossError(None, None, "corrupted record at 7\n\t [[{{node x}}]]")
NO_ROOM = tf.errors.ResourceExhaustedError(None, None, f"ckpt-20; {FULL}")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (NO_ROOM, OSError, r"No space left on device: '.*run'"),
        (OSError(errno.ENOSPC, FULL), OSError, r"device: '.*run'"),
        (DAMAGED, ValueError, r"^data: corrupted record at 7$"),
        (RuntimeError("The loss value is NaN"), ValueError, "a lower optimizer.learning_rate"),
        (RuntimeError("anything else"), RuntimeError, "^anything else$"),
        (OOM, tf.errors.OpError, "OOM"),
    ],
)
def test_errors_of_training(tmp_path, error, kind, message):
    with pytest.raises(kind, match=message), in_one_line(tmp_path / "run"):
        raise error


@pytest.mark.slow
def test_run_has_the_model_that_its_trainer_trains_in_compiled_steps(sharded, tmp_path):
    """Of the recipe of drawn shapes; XLA compiles the step for the CPU."""
    words = f"--config lambda_resnet14_shapes --data.dir {sharded} --output_dir {tmp_path}/run"
    words += " --model.image_size 64 --data.batch_size 2 --training.seed 5"
    config = DetectionConfig.from_command_line(words.split())
    run = DetectionRun(config, find_devices("one_device"), resumed=False)
    run.load()
    with run.precision(config.training.precision):
        with run.devices.scope():
            (line,) = run.build()
        model, optimizer = run.trainer.model, run.trainer.optimizer
        assert model is run.model
        given, counts, first_step = run.task.training_records.args
        assert run.index["train"] == counts.train
        assert sum(counts.train.values()) == run.images[0]
        assert (given.training.seed, first_step) == (5, 0)
        assert f"{run.classes} classes" in line
        assert not (tmp_path / "run").exists()
        inputs = next(iter(run.task.build_inputs(run.experiment.task.train_data)))
        train = lambda inputs: run.task.train_step(inputs, model, optimizer)  # noqa: E731
        step = tf.function(train, jit_compile=True)
        before = [np.array(variable) for variable in model.backbone.trainable_variables]
        for _ in range(2):  # the rate of the first step is 0
            assert np.isfinite(float(step(inputs)[run.task.loss]))
        assert int(optimizer.iterations) == 2
        after = [np.array(variable) for variable in model.backbone.trainable_variables]
        assert not all(map(np.array_equal, before, after))
