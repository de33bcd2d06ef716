"""The optimizer, its learning rate and its weight decay."""

from typing import Any

import keras
from keras import ops

from zoo.config import OptimizerConfig

REFERENCE_BATCH = 256  # the batch that `optimizer.learning_rate` is for


def create_optimizer(
    config: OptimizerConfig, batch_size: int, steps_per_epoch: int, epochs: int
) -> keras.optimizers.Optimizer:
    """Returns the optimizer with the schedule of the paper (Section E.2, D.3.2).

    The batch is that of all devices; warm-up is part of the epochs.
    """
    rate = config.learning_rate * batch_size / REFERENCE_BATCH
    warmup = round(config.warmup_epochs * steps_per_epoch)
    if config.schedule == "cosine":
        schedule: Any = keras.optimizers.schedules.CosineDecay(
            initial_learning_rate=0.0 if warmup else rate,
            decay_steps=epochs * steps_per_epoch - warmup,
            warmup_target=rate if warmup else None,
            warmup_steps=warmup,
        )
    else:
        schedule = WarmUpExponentialDecay(
            warmup,
            initial_learning_rate=rate,
            decay_steps=max(1, round(config.decay_epochs * steps_per_epoch)),
            decay_rate=config.decay_rate,
            staircase=True,
        )
    if config.name == "sgd":
        return keras.optimizers.SGD(schedule, momentum=config.momentum)
    if config.name == "adam":
        return keras.optimizers.Adam(schedule, beta_1=config.momentum)
    # As MobileNets are trained with (TensorFlow Model Garden); the paper gives the momentum only.
    return keras.optimizers.RMSprop(schedule, rho=0.9, momentum=config.momentum, epsilon=2e-3)


class WarmUpExponentialDecay(keras.optimizers.schedules.ExponentialDecay):
    """Linear warm-up from 0, then one factor for every so many steps after it (Section D.3.2).

    Args:
        warmup_steps: Steps to the highest rate.
        **arguments: Those of Keras' schedule, whose steps count from the end of warm-up.
    """

    def __init__(self, warmup_steps: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.warmup_steps = warmup_steps

    def __call__(self, step: Any) -> Any:
        """Returns the rate of a step, counted from 0."""
        warming = self.initial_learning_rate * ops.cast(step, "float32") / max(self.warmup_steps, 1)
        decayed = super().__call__(ops.maximum(step - self.warmup_steps, 0))
        return ops.where(step < self.warmup_steps, warming, decayed)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments."""
        return {**super().get_config(), "warmup_steps": self.warmup_steps}


def add_weight_decay(
    network: keras.Model, weight_decay: float, weight_decay_on: str = "kernels"
) -> None:
    """Adds L2 to the loss: `weight_decay / 2` times the square of every kernel.

    Trainable kernels get a regularizer; biases, normalisation and position embeddings do not,
    unless it falls on all but `"batch_norm"`. It is no `weight_decay` of Keras' optimizers, which
    momentum and the learning rate schedule act on in another way.
    """
    everything = weight_decay_on == "all_but_batch_norm"
    if weight_decay:
        for variable in network.trainable_variables:
            of_batch_norm = variable.name in ("gamma", "beta")
            if variable.name.endswith("kernel") or (everything and not of_batch_norm):
                variable.regularizer = keras.regularizers.L2(weight_decay / 2)
