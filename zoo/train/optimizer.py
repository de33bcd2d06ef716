"""The optimizer, its learning rate and its weight decay."""

from typing import Any

import keras
from keras import ops

from lambda_keras.weights.fit import CLASSIFIER
from zoo.config import OptimizerConfig
from zoo.train.network import BLOCK
from zoo.train.updates import SGD, Adam, Lamb, Lion, RMSprop
from zoo.variables import kernels

REFERENCE_BATCH = 256  # batch size that `optimizer.learning_rate` is for


# Class, settings that are its arguments, and defaults that differ from Keras': for RMSprop, from
# MobileNets in the Model Garden; for LAMB, from its authors.
OPTIMIZERS: dict[str, tuple[Any, tuple[str, ...], dict[str, Any]]] = {
    "sgd": (SGD, ("momentum", "nesterov"), {}),
    "rmsprop": (RMSprop, ("momentum", "epsilon"), {"rho": 0.9, "epsilon": 2e-3}),
    "adamw": (Adam, ("beta_1", "beta_2", "epsilon"), {}),
    "lamb": (Lamb, ("beta_1", "beta_2", "epsilon"), {"epsilon": 1e-6}),
    "lion": (Lion, ("beta_1", "beta_2"), {}),
}


def create_optimizer(
    config: OptimizerConfig,
    batch_size: int,
    steps_per_epoch: int,
    epochs: int,
    network: keras.Model | None = None,
) -> Any:
    """Returns the optimizer with the schedule of the paper (Section E.2, D.3.2).

    The network is needed for decoupled weight decay and for layer-wise learning rates.
    """
    create, names, defaults = OPTIMIZERS[config.name]
    given = {name: getattr(config, name) for name in (*names, "global_clipnorm")}
    arguments = defaults | {name: value for name, value in given.items() if value is not None}
    schedule = _schedule(config, batch_size, steps_per_epoch, epochs)
    optimizer = create(learning_rate=schedule, **arguments)
    if network is not None:
        if config.layer_decay is not None:
            optimizer.scale_rates(layer_rates(network, config.layer_decay))
        if config.decoupled:
            optimizer.decay(decayed(network, config.weight_decay_on), config.weight_decay)
    return optimizer


def _schedule(
    config: OptimizerConfig, batch_size: int, steps_per_epoch: int, epochs: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    rate = config.learning_rate * batch_size / REFERENCE_BATCH
    warmup = round(config.warmup_epochs * steps_per_epoch)
    if config.schedule == "cosine":
        return keras.optimizers.schedules.CosineDecay(
            initial_learning_rate=0.0 if warmup else rate,
            decay_steps=epochs * steps_per_epoch - warmup,
            warmup_target=rate if warmup else None,
            warmup_steps=warmup,
        )
    return WarmUpExponentialDecay(
        warmup,
        initial_learning_rate=rate,
        decay_steps=max(1, round(config.decay_epochs * steps_per_epoch)),
        decay_rate=config.decay_rate,
        staircase=True,
    )


class WarmUpExponentialDecay(keras.optimizers.schedules.ExponentialDecay):
    """Linear warm-up from 0, after which the steps of `ExponentialDecay` count (Section D.3.2)."""

    def __init__(self, warmup_steps: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.warmup_steps = warmup_steps

    def __call__(self, step: Any) -> Any:
        warming = self.initial_learning_rate * ops.cast(step, "float32") / max(self.warmup_steps, 1)
        decayed = super().__call__(ops.maximum(step - self.warmup_steps, 0))
        return ops.where(step < self.warmup_steps, warming, decayed)


def layer_rates(network: keras.Model, decay: float) -> list[tuple[Any, float]]:
    """Returns the trainable variables and the factors of their learning rates.

    The factor is 1 for the classifier, `decay` for the last block, `decay ** 2` for the block
    before it, and so on; the stem comes before the first block.
    """
    group, groups = 0, []
    seen = {}
    for layer in network.layers:
        match = BLOCK.match(layer.name)
        if layer.name == CLASSIFIER:
            group = len(seen) + 1
        elif match:
            group = seen.setdefault(match[0], len(seen) + 1)
        groups += [(variable, group) for variable in layer.trainable_variables]
    return [(variable, decay ** (len(seen) + 1 - group)) for variable, group in groups]


def decayed(network: keras.Model, weight_decay_on: str = "kernels") -> list[Any]:
    """Returns the trainable variables that decay: kernels, or all but batch normalization's."""
    if weight_decay_on == "all_but_batch_norm":
        everything: Any = network.trainable_variables
        return [variable for variable in everything if variable.name not in ("gamma", "beta")]
    return kernels(network)


def add_weight_decay(
    network: keras.Model, weight_decay: float, weight_decay_on: str = "kernels"
) -> None:
    """Adds L2 regularization: `weight_decay / 2` times the sum of squares of `decayed` variables.

    The `weight_decay` of Keras' optimizers is decoupled, which is not the same.
    """
    if weight_decay:
        for variable in decayed(network, weight_decay_on):
            variable.regularizer = keras.regularizers.L2(weight_decay / 2)
