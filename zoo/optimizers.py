"""The optimizer and its learning rate."""

from typing import Any

import keras

from zoo.config import OptimizerConfig


def create_optimizer(
    config: OptimizerConfig, batch_size: int, steps_per_epoch: int, epochs: int
) -> keras.optimizers.Optimizer:
    """Returns SGD with the schedule of the paper (Section E.2): linear warm-up, then a cosine.

    Args:
        config: Rate for 256 images per step, momentum and epochs of warm-up.
        batch_size: Images per step, over all devices.
        steps_per_epoch: Steps per pass over the training images.
        epochs: Passes, warm-up included.
    """
    rate = config.learning_rate * batch_size / 256
    warmup = round(config.warmup_epochs * steps_per_epoch)
    schedule: Any = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0 if warmup else rate,
        decay_steps=epochs * steps_per_epoch - warmup,
        warmup_target=rate if warmup else None,
        warmup_steps=warmup,
    )
    return keras.optimizers.SGD(schedule, momentum=config.momentum)
