"""Weight decay, layer-wise rates and clipping for every optimizer."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from keras import ops


class Recipe:
    """Mixin of an optimizer: decoupled weight decay and per-variable learning rates.

    Gradients are clipped by their norm over all devices; Keras clips on each device.
    """

    global_clipnorm: Any  # set by Keras, as are _var_key and assign_sub
    _var_key: Any
    assign_sub: Any

    def scale_rates(self, factors: Iterable[tuple[Any, float]]) -> None:
        """Sets a learning-rate factor of variables; others have 1."""
        self._factors = {self._var_key(variable): factor for variable, factor in factors}

    def decay(self, variables: Iterable[Any], weight_decay: float) -> None:
        """Sets decoupled weight decay: each step subtracts `rate * weight_decay * variable`."""
        self._decays = {self._var_key(variable): weight_decay for variable in variables}

    def rate_of(self, variable: Any, learning_rate: Any) -> Any:
        """Returns the learning rate of a variable."""
        factor = getattr(self, "_factors", {}).get(self._var_key(variable), 1.0)
        return ops.cast(learning_rate, variable.dtype) * factor

    def decay_of(self, variable: Any) -> float | None:
        """Returns the decay of a variable; None if it has none."""
        return getattr(self, "_decays", {}).get(self._var_key(variable))

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one variable by Keras' rule, with its own rate and decay."""
        rate = self.rate_of(variable, learning_rate)
        if decay := self.decay_of(variable):
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
