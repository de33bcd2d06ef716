"""Exponential moving averages (EMA) of weights and batch statistics."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras import ops


def _values(variables: Iterable[Any]) -> list[np.ndarray]:
    """Returns copies of the values: on JAX, two variables may not share an array."""
    return [np.array(ops.convert_to_numpy(variable)) for variable in variables]


def _assign(variables: Iterable[Any], values: Iterable[np.ndarray]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


class ExponentialMovingAverage(keras.layers.Layer):
    """Exponential moving averages of a network's weights and batch statistics.

    The decay of a step is `min(decay, (1 + step) / (10 + step))`, as in
    `tf.train.ExponentialMovingAverage` and the TensorFlow Model Garden; a constant 0.9999 would
    remember the random initial weights for 10,000 steps.
    """

    def __init__(self, network: keras.Model, decay: float) -> None:
        super().__init__(name="averages", trainable=False, dtype="float32")
        self.decay = decay
        for source in network.weights:
            average = self.add_weight(source.shape, "zeros", trainable=False, name=source.name)
            average.assign(*_values([source]))
        self.built = True

    def update(self, network: keras.Model, step: Any) -> None:
        """Moves the averages towards the values after a step, counted from 1."""
        step = ops.cast(step, "float32")
        share = 1 - ops.minimum(self.decay, (1 + step) / (10 + step))
        for average, source in zip(self.weights, network.weights, strict=True):
            average.assign(average + share * (ops.cast(source, "float32") - average))

    @contextmanager
    def swapped(self, network: keras.Model) -> Iterator[None]:
        """Swaps the averages into the network in the `with` block, and keeps changes made there."""
        raw, before = _values(network.weights), _values(self.weights)
        _assign(network.weights, before)
        yield
        after = _values(network.weights)
        _assign(network.weights, raw)
        if not all(map(np.array_equal, before, after)):
            _assign(self.weights, after)

    def predict(self, network: keras.Model, inputs: Any) -> Any:
        """Runs the network with its EMA weights."""
        values = dict(zip(map(id, network.weights), self.weights, strict=True))
        trainable, others = (
            [values.get(id(variable), variable).value for variable in variables]
            for variables in (network.trainable_variables, network.non_trainable_variables)
        )
        return network.stateless_call(trainable, others, inputs, training=False)[0]
