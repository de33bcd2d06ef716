"""Stochastic depth."""

import keras
import numpy as np
import pytest
from support.arrays import to_numpy

from lambda_keras.layers import StochasticDepth


@pytest.mark.parametrize("rate", [0.2, 0.7])
def test_drops_whole_examples_and_keeps_the_mean(rate):
    inputs = np.random.default_rng(0).uniform(1, 2, (4000, 3, 2)).astype("float32")
    outputs = to_numpy(StochasticDepth(rate, seed=1)(inputs, training=True))
    factors = outputs / inputs
    first = np.broadcast_to(factors[:, :1, :1], factors.shape)
    np.testing.assert_allclose(factors, first, rtol=1e-5)
    kept = factors[:, 0, 0] > 0
    np.testing.assert_allclose(factors[kept], 1 / (1 - rate), rtol=1e-5)
    # Four standard deviations of the mean of 4000 draws.
    assert abs(kept.mean() - (1 - rate)) < 4 * np.sqrt(rate * (1 - rate) / 4000)


def test_every_call_draws_anew_and_a_seed_repeats():
    inputs = np.ones((64, 1), "float32")
    first, second = StochasticDepth(0.5, seed=3), StochasticDepth(0.5, seed=3)
    draws = [to_numpy(first(inputs, training=True)) for _ in range(2)]
    assert not np.array_equal(*draws)
    for draw in draws:
        np.testing.assert_array_equal(draw, to_numpy(second(inputs, training=True)))


@pytest.mark.parametrize(("rate", "training"), [(0.5, False), (0.0, True)])
def test_does_nothing_in_inference_or_at_rate_0(rate, training):
    inputs = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    outputs = StochasticDepth(rate)(inputs, training=training)
    np.testing.assert_array_equal(to_numpy(outputs), inputs)


def test_half_precision():
    layer = StochasticDepth(0.25, seed=4, dtype="mixed_bfloat16")
    outputs = layer(np.ones((16, 2, 2, 1), "float32"), training=True)
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
