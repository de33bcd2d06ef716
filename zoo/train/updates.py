"""Optimizers of Keras whose updates differ: decay, rates of variables, clipping, accumulation.

They override private methods of Keras; tests/test_keras_private.py checks that Keras still has
them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops


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


# Names of these classes are Keras' own, which saved configurations have.
class SGD(Recipe, keras.optimizers.SGD):
    """SGD with the decay and the rates of `Recipe`."""


class RMSprop(Recipe, keras.optimizers.RMSprop):
    """RMSprop with the decay and the rates of `Recipe`."""


class Adam(Recipe, keras.optimizers.Adam):
    """Adam with the decay and the rates of `Recipe`, which is AdamW."""


class Lion(Recipe, keras.optimizers.Lion):
    """Lion with the decay and the rates of `Recipe`."""


class Lamb(Recipe, keras.optimizers.Lamb):
    """LAMB of You et al. (arXiv:1904.00962, Algorithm 2).

    With Adam's direction `r = m / (sqrt(v) + epsilon)`, from bias-corrected `m` and `v`, and the
    weight decay `d`:

        u = r + d * w
        w <- w - learning_rate * |w| / |u| * u

    Keras' own LAMB decays weights before the step, outside of the ratio `|w| / |u|`. Variables
    without a decay (biases and normalization, as in the authors' code) have a ratio of 1.
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
            norm, update_norm = (ops.sqrt(ops.sum(ops.square(v))) for v in (variable, update))
            moves = ops.logical_and(norm > 0, update_norm > 0)
            rate = rate * ops.where(moves, norm / ops.where(moves, update_norm, 1), 1)
        self.assign_sub(variable, rate * update)


class GradientAccumulation(keras.optimizers.Optimizer):
    """Gradient accumulation around any optimizer.

    Learning rates, momentum and checkpoints count the optimizer's steps. Keras' own
    `gradient_accumulation_steps` counts micro-batches instead, and fails on several devices.
    """

    def __init__(self, inner: Any, steps: int) -> None:
        super().__init__(learning_rate=0.0, name="accumulation")
        self.inner = inner
        self.steps = steps  # micro-batches of a step
        self.last = True  # whether a micro-batch ends its step; read when a function is traced

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
        return [*super().variables, *self.inner.variables]

    @property
    def iterations(self) -> Any:
        return self.inner.iterations

    @property
    def learning_rate(self) -> Any:
        return self.inner.learning_rate

    def scale_loss(self, loss: Any) -> Any:
        return self.inner.scale_loss(loss)

    def apply(self, grads: Any, trainable_variables: Any) -> None:
        """Adds gradients to the sums; at the last micro-batch of a step, updates the variables."""
        totals = [total + gradient for total, gradient in zip(self.sums, grads, strict=True)]
        if self.last:
            self.inner.apply([total / self.steps for total in totals], trainable_variables)
            totals = [ops.zeros_like(total) for total in totals]
        for total, value in zip(self.sums, totals, strict=True):
            total.assign(value)

    def stateless_apply(
        self, optimizer_variables: list, grads: list, trainable_variables: list
    ) -> tuple[list, list]:
        end = len(super().variables)
        first = end - len(self.sums)
        others, sums = optimizer_variables[:first], optimizer_variables[first:end]
        inner = optimizer_variables[end:]
        totals = [total + gradient for total, gradient in zip(sums, grads, strict=True)]
        if self.last:
            means = [total / self.steps for total in totals]
            trainable_variables, inner = self.inner.stateless_apply(
                inner, means, trainable_variables
            )
            totals = [ops.zeros_like(total) for total in totals]
        return trainable_variables, [*others, *totals, *inner]
