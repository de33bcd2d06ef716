"""The optimizer, its learning rate and its weight decay."""

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from zoo.config import OptimizerConfig
from zoo.registry import CLASSIFIER, kernels
from zoo.train.network import BLOCK

REFERENCE_BATCH = 256  # batch size that `optimizer.learning_rate` is for


class Recipe:
    """Mixin of an optimizer: decoupled weight decay and per-variable learning rates.

    Gradients are clipped by their norm over all devices; Keras clips on each device.
    """

    global_clipnorm: Any  # set by Keras, as are _var_key and assign_sub
    _var_key: Any
    assign_sub: Any
    _factors: Mapping[Any, float] = {}
    _decays: Mapping[Any, float] = {}

    def scale_rates(self, factors: Iterable[tuple[Any, float]]) -> None:
        """Sets a learning-rate factor of variables; others have 1."""
        self._factors = {self._var_key(variable): factor for variable, factor in factors}

    def decay(self, variables: Iterable[Any], weight_decay: float) -> None:
        """Sets decoupled weight decay: each step subtracts `rate * weight_decay * variable`."""
        self._decays = {self._var_key(variable): weight_decay for variable in variables}

    def settings_of(self, variable: Any, learning_rate: Any) -> tuple[Any, float | None]:
        """Returns the learning rate and the decay of a variable; None if it has none."""
        key = self._var_key(variable)
        rate = ops.cast(learning_rate, variable.dtype) * self._factors.get(key, 1.0)
        return rate, self._decays.get(key)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        rate, decay = self.settings_of(variable, learning_rate)
        if decay:
            self.assign_sub(variable, variable * (rate * decay))
        super().update_step(gradient, variable, rate)  # pyright: ignore[reportAttributeAccessIssue]

    def _clip_gradients(self, gradients: list) -> list:
        if self._clips_over_devices():
            context: Any = tf.distribute.get_replica_context()
            gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        return super()._clip_gradients(gradients)  # pyright: ignore[reportAttributeAccessIssue]

    def _all_reduce_sum_gradients(self, pairs: Any) -> Any:
        if self._clips_over_devices():
            return list(pairs)  # summed before they were clipped
        return super()._all_reduce_sum_gradients(pairs)  # pyright: ignore[reportAttributeAccessIssue]

    def _clips_over_devices(self) -> bool:
        return bool(self.global_clipnorm) and tf.distribute.get_strategy().num_replicas_in_sync > 1


class Lamb(Recipe, keras.optimizers.Lamb):
    """LAMB of You et al. (arXiv:1904.00962, Algorithm 2).

    With Adam's direction `r = m / (sqrt(v) + epsilon)`, both without bias, and the decay `d`:

        u = r + d * w
        w <- w - learning_rate * |w| / |u| * u

    Keras' own decays weights before the step, outside of the ratio `|w| / |u|`. Variables without
    a decay (biases and normalization, as in the authors' code) have a ratio of 1.
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        dtype, index = variable.dtype, self._get_variable_index(variable)
        gradient, step = (ops.cast(value, dtype) for value in (gradient, self.iterations + 1))
        mean, square = self._momentums[index], self._velocities[index]
        self.assign_add(mean, (gradient - mean) * (1 - self.beta_1))
        self.assign_add(square, (ops.square(gradient) - square) * (1 - self.beta_2))
        unbiased = mean / (1 - ops.power(ops.cast(self.beta_1, dtype), step))
        scale = square / (1 - ops.power(ops.cast(self.beta_2, dtype), step))
        update = unbiased / (ops.sqrt(scale) + self.epsilon)
        rate, decay = self.settings_of(variable, learning_rate)
        if decay is not None:
            update = update + decay * variable
            norm, of_update = (ops.sqrt(ops.sum(ops.square(v))) for v in (variable, update))
            moves = ops.logical_and(norm > 0, of_update > 0)
            rate = rate * ops.where(moves, norm / ops.where(moves, of_update, 1), 1)
        self.assign_sub(variable, rate * update)


def _with_recipe(base: type) -> Any:
    return type(base.__name__, (Recipe, base), {})


# Class, the settings that are its arguments, and defaults other than Keras': for RMSprop those of
# MobileNets in the Model Garden, for LAMB that of its authors.
OPTIMIZERS: dict[str, tuple[Any, tuple[str, ...], dict[str, Any]]] = {
    "sgd": (_with_recipe(keras.optimizers.SGD), ("momentum", "nesterov"), {}),
    "rmsprop": (
        _with_recipe(keras.optimizers.RMSprop),
        ("momentum", "epsilon"),
        {"rho": 0.9, "epsilon": 2e-3},
    ),
    "adamw": (_with_recipe(keras.optimizers.Adam), ("beta_1", "beta_2", "epsilon"), {}),
    "lamb": (Lamb, ("beta_1", "beta_2", "epsilon"), {"epsilon": 1e-6}),
    "lion": (_with_recipe(keras.optimizers.Lion), ("beta_1", "beta_2"), {}),
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
    of_name, names, defaults = OPTIMIZERS[config.name]
    given = {name: getattr(config, name) for name in (*names, "global_clipnorm")}
    arguments = defaults | {name: value for name, value in given.items() if value is not None}
    schedule = _schedule(config, batch_size, steps_per_epoch, epochs)
    optimizer = of_name(learning_rate=schedule, **arguments)
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

    The classifier has 1, the last block `decay`, the block before it the square of that, and so on;
    the stem is before the first block.
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
    """Adds L2 to the loss: `weight_decay / 2` times the square of every kernel.

    The `weight_decay` of Keras' optimizers is decoupled, which is not the same.
    """
    if weight_decay:
        for variable in decayed(network, weight_decay_on):
            variable.regularizer = keras.regularizers.L2(weight_decay / 2)


class GradientAccumulation(keras.optimizers.Optimizer):
    """Gradient accumulation around any optimizer.

    Learning rates, momentum and checkpoints count the optimizer's steps. Keras' own
    `gradient_accumulation_steps` counts micro-batches instead, and fails on several devices.
    """

    def __init__(self, inner: Any, steps: int) -> None:
        super().__init__(learning_rate=0.0, name="accumulation")
        self.inner = inner
        self.steps = steps  # micro-batches of a step
        self.last = True  # whether a micro-batch ends its step: counts when a function is traced

    def build(self, variables: list) -> None:
        self.sums = [  # one set for each device
            keras.Variable(
                "zeros",
                shape=variable.shape,
                dtype=variable.dtype,
                trainable=False,
                aggregation="sum",
                synchronization="on_read",
                name=f"sum_{number}",
            )
            for number, variable in enumerate(variables)
        ]
        self.inner.build(variables)
        super().build(variables)

    @property
    def variables(self) -> list:
        return [*self._variables, *self.inner.variables]

    @property
    def iterations(self) -> Any:
        return self.inner.iterations

    @property
    def learning_rate(self) -> Any:
        return self.inner.learning_rate

    def scale_loss(self, loss: Any) -> Any:
        return self.inner.scale_loss(loss)

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Adds gradients to the sums; at the last micro-batch of a step, updates the variables."""
        variables = trainable_variables or self._trainable_variables
        totals = [total + gradient for total, gradient in zip(self.sums, grads, strict=True)]
        if self.last:
            self.inner.apply([total / self.steps for total in totals], variables)
            totals = [ops.zeros_like(total) for total in totals]
        for total, value in zip(self.sums, totals, strict=True):
            total.assign(value)

    def stateless_apply(
        self, optimizer_variables: list, grads: list, trainable_variables: list
    ) -> tuple[list, list]:
        first, end = len(self._variables) - len(self.sums), len(self._variables)
        own, sums = optimizer_variables[:first], optimizer_variables[first:end]
        inner = optimizer_variables[end:]
        totals = [total + gradient for total, gradient in zip(sums, grads, strict=True)]
        if self.last:
            means = [total / self.steps for total in totals]
            trainable_variables, inner = self.inner.stateless_apply(
                inner, means, trainable_variables
            )
            totals = [ops.zeros_like(total) for total in totals]
        return trainable_variables, [*own, *totals, *inner]
