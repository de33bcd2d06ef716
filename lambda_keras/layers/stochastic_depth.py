"""Stochastic depth (Huang et al., ECCV 2016, arXiv:1603.09382)."""

from typing import ClassVar

import keras
from keras import ops

from lambda_keras.layers.arguments import Constraint, number
from lambda_keras.layers.base import Layer


@keras.saving.register_keras_serializable(package="lambda_keras")
class StochasticDepth(Layer):
    """Stochastic depth: drops a residual branch for whole examples, in training only.

    Kept branches are divided by the probability of keeping them, which preserves the mean.

    Args:
        rate: Float in `[0, 1)`, probability that an example loses the branch.
        seed: Int, seed of the random numbers. Defaults to a seed drawn from Keras' global one.
        **kwargs: `name`, `dtype` and other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, ...)`, the branch before it is added to the residual.
        training: Bool, whether branches are dropped.

    Returns:
        Tensor of the shape of `inputs`.

    Raises:
        ValueError: If the rate is out of its range, or the seed is not an integer.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import StochasticDepth
    >>> branch = keras.random.normal((2, 14, 10, 32))
    >>> keras.ops.shape(StochasticDepth(0.1)(branch, training=True))
    (2, 14, 10, 32)
    """

    constraints: ClassVar = {
        "rate": number("a rate from 0 to 1, below 1", lambda x: 0 <= x < 1),
        "seed": Constraint("an integer", lambda x: x is None or type(x) is int),
    }

    def __init__(self, rate: float, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.keep(locals())
        # Without a rate there is no state, as in Keras' Dropout.
        self.seed_generator = keras.random.SeedGenerator(seed) if rate else None
        self.supports_masking = True

    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return inputs
        shape = (ops.shape(inputs)[0], *(1 for _ in inputs.shape[1:]))
        uniform = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)
        kept = ops.cast(uniform >= self.rate, inputs.dtype)
        return inputs * (kept / (1 - self.rate))
