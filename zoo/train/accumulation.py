"""Gradient accumulation."""

from typing import Any

import keras
from keras import ops


class GradientAccumulation(keras.optimizers.Optimizer):
    """Gradient accumulation around any optimizer.

    Learning rates, momentum and checkpoints count the optimizer's steps. Keras' own
    `gradient_accumulation_steps` counts micro-batches instead, and fails on several devices.
    Whether a micro-batch is the last of its step is decided when a function is traced, not when it
    runs.

    Args:
        inner: Optimizer, which may scale the loss.
        steps: Micro-batches of a step.
    """

    _variables: Any  # these are Keras'
    _trainable_variables: Any

    def __init__(self, inner: Any, steps: int) -> None:
        super().__init__(learning_rate=0.0, name="accumulation")
        self.inner = inner
        self.steps = steps
        self.last = True

    def build(self, variables: list) -> None:
        """Creates the sums of gradients, one set for each device."""
        self.sums = [
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
        """Variables of the accumulator and of the optimizer."""
        return [*self._variables, *self.inner.variables]

    @property
    def iterations(self) -> Any:
        """Steps of the optimizer."""
        return self.inner.iterations

    @property
    def learning_rate(self) -> Any:
        """The optimizer's learning rate."""
        return self.inner.learning_rate

    def scale_loss(self, loss: Any) -> Any:
        """Scales the loss as the optimizer does."""
        return self.inner.scale_loss(loss)

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Adds gradients to the sums; at the last micro-batch of a step, updates the variables."""
        variables = trainable_variables or self._trainable_variables
        totals = [total + gradient for total, gradient in zip(self.sums, grads, strict=True)]
        if not self.last:
            for total, value in zip(self.sums, totals, strict=True):
                total.assign(value)
            return
        self.inner.apply([total / self.steps for total in totals], variables)
        for total in self.sums:
            total.assign(ops.zeros(total.shape, total.dtype))

    def stateless_apply(
        self, optimizer_variables: list, grads: list, trainable_variables: list
    ) -> tuple[list, list]:
        """Applies gradients without state, as JAX needs it."""
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
