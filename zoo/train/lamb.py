"""LAMB with weight decay inside the trust ratio, as in the paper."""

from typing import Any

import keras
from keras import ops

from zoo.train.recipe import Recipe


class Lamb(Recipe, keras.optimizers.Lamb):
    """LAMB of You et al. (arXiv:1904.00962, Algorithm 2).

    With Adam's direction `r = m / (sqrt(v) + epsilon)`, both without bias, and the decay `d`:

        u = r + d * w
        w <- w - learning_rate * |w| / |u| * u

    Keras' own decays weights before the step, outside of the ratio `|w| / |u|`. Variables without
    a decay (biases and normalization, as in the authors' code) have a ratio of 1.

    Example:
    >>> import keras
    >>> from zoo.train.lamb import Lamb
    >>> weight = keras.Variable([3.0, 4.0])
    >>> optimizer = Lamb(learning_rate=0.1)
    >>> optimizer.decay([weight], 0.0)
    >>> optimizer.apply([keras.ops.convert_to_tensor([1.0, 1.0])], [weight])
    >>> print(keras.ops.convert_to_numpy(weight).round(3))  # each 0.1 * 5 / sqrt(2) less
    [2.646 3.646]
    """

    iterations: Any  # these are set by Keras
    beta_1: Any
    beta_2: Any
    epsilon: Any
    _momentums: Any
    _velocities: Any
    _get_variable_index: Any
    assign_add: Any

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates a variable, its mean gradient and its mean square."""
        dtype, index = variable.dtype, self._get_variable_index(variable)
        gradient, step = (ops.cast(value, dtype) for value in (gradient, self.iterations + 1))
        mean, square = self._momentums[index], self._velocities[index]
        self.assign_add(mean, (gradient - mean) * (1 - self.beta_1))
        self.assign_add(square, (ops.square(gradient) - square) * (1 - self.beta_2))
        unbiased = mean / (1 - ops.power(ops.cast(self.beta_1, dtype), step))
        scale = square / (1 - ops.power(ops.cast(self.beta_2, dtype), step))
        update = unbiased / (ops.sqrt(scale) + self.epsilon)
        rate, decay = self.rate_of(variable, learning_rate), self.decay_of(variable)
        if decay is not None:
            update = update + decay * variable
            norm, of_update = (ops.sqrt(ops.sum(ops.square(v))) for v in (variable, update))
            moves = ops.logical_and(norm > 0, of_update > 0)
            rate = rate * ops.where(moves, norm / ops.where(moves, of_update, 1), 1)
        self.assign_sub(variable, rate * update)
