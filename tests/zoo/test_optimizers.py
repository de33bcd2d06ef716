"""The learning rate over a run."""

import numpy as np
import pytest

from zoo.config import OptimizerConfig
from zoo.optimizers import create_optimizer


def rates(warmup_epochs):
    config = OptimizerConfig(learning_rate=0.2, warmup_epochs=warmup_epochs)
    optimizer = create_optimizer(config, batch_size=128, steps_per_epoch=10, epochs=5)
    schedule = optimizer._learning_rate
    return np.array([float(schedule(step)) for step in range(51)])


def test_warmup_is_linear_then_cosine():
    rate = rates(warmup_epochs=2)
    np.testing.assert_allclose(rate[:21], 0.1 * np.arange(21) / 20, atol=1e-6)
    expected = 0.05 * (1 + np.cos(np.pi * np.arange(31) / 30))
    np.testing.assert_allclose(rate[20:], expected, atol=1e-6)


def test_without_warmup():
    rate = rates(warmup_epochs=0)
    assert rate[0] == pytest.approx(0.1)
    assert rate[-1] == pytest.approx(0, abs=1e-7)
    assert (np.diff(rate) < 0).all()
