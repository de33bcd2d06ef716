"""A training step of the recipe of drawn shapes, compiled by XLA for the CPU."""

import numpy as np
import pytest
import tensorflow as tf

from zoo.detection.config import DetectionConfig
from zoo.detection.train import DetectionRun
from zoo.devices import find_devices


@pytest.mark.needs("official")
@pytest.mark.slow
def test_compiled_step(sharded, tmp_path):
    words = f"--config lambda_resnet14_shapes --data.dir {sharded} --output_dir {tmp_path}/run"
    words += " --model.image_size 64 --data.batch_size 2"
    config = DetectionConfig.from_command_line(words.split())
    run = DetectionRun(config, find_devices("one_device"), False)
    run.load()
    with run.precision(config.training.precision):
        run.build()
        inputs = next(iter(run.task.build_inputs(run.experiment.task.train_data)))
        optimizer = run.trainer.optimizer
        train = lambda inputs: run.task.train_step(inputs, run.model, optimizer)  # noqa: E731
        step = tf.function(train, jit_compile=True)
        before = [np.array(variable) for variable in run.model.backbone.trainable_variables]
        for _ in range(2):  # the rate of the first step is 0
            assert np.isfinite(float(step(inputs)[run.task.loss]))
        assert int(optimizer.iterations) == 2
        after = [np.array(variable) for variable in run.model.backbone.trainable_variables]
        assert not all(map(np.array_equal, before, after))
