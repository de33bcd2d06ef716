"""The optimizer, its learning rate over a run, and weight decay."""

import keras
import networks
import numpy as np
import pytest

from zoo.config import OptimizerConfig
from zoo.train.optimizer import add_weight_decay, create_optimizer


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


def test_exponential_decay_of_mobilenet():
    """D.3.2: warm-up to 0.1 at 4096 images, from there a factor of 0.99 every 3 epochs."""
    config = OptimizerConfig(
        name="rmsprop",
        learning_rate=0.1 * 256 / 4096,
        warmup_epochs=5,
        schedule="exponential",
        decay_rate=0.99,
        decay_epochs=3,
    )
    optimizer = create_optimizer(config, batch_size=4096, steps_per_epoch=10, epochs=350)
    assert isinstance(optimizer, keras.optimizers.RMSprop)
    assert optimizer.momentum == 0.9
    schedule = optimizer._learning_rate
    np.testing.assert_allclose(
        [float(schedule(step)) for step in range(50)], 0.1 * np.arange(50) / 50, rtol=1e-5
    )
    for step in (50, 79, 80, 109, 110, 3499):
        assert float(schedule(step)) == pytest.approx(0.1 * 0.99 ** ((step - 50) // 30), rel=1e-5)
    copy = type(schedule).from_config(schedule.get_config())
    assert float(copy(77)) == float(schedule(77))


def test_momentum_of_adam():
    config = OptimizerConfig(name="adam", momentum=0.8, learning_rate=0.012, warmup_epochs=0)
    optimizer = create_optimizer(config, batch_size=64, steps_per_epoch=10, epochs=5)
    assert isinstance(optimizer, keras.optimizers.Adam)
    assert (optimizer.beta_1, optimizer.beta_2) == (0.8, 0.999)
    assert float(optimizer.learning_rate) == pytest.approx(0.003)


def test_weight_decay_is_l2_of_the_kernels_in_the_loss():
    network = networks.tiny_model()
    networks.randomize(network)
    add_weight_decay(network, 0.0)
    assert network.losses == []
    add_weight_decay(network, 4e-5)
    kernels = [v for v in network.trainable_variables if v.name.endswith("kernel")]
    others = {v.name for v in network.trainable_variables} - {v.name for v in kernels}
    assert others == {"beta", "bias", "gamma", "position_embeddings"}
    assert {v.name for v in kernels} == {"kernel", "key_kernel", "query_kernel", "value_kernel"}
    expected = 4e-5 / 2 * sum((value**2).sum() for value in networks.values(kernels))
    assert float(sum(network.losses)) == pytest.approx(expected, rel=1e-5)


def test_weight_decay_on_all_but_batch_normalisation():
    network = networks.tiny_model()
    networks.randomize(network)
    add_weight_decay(network, 4e-5, "all_but_batch_norm")
    decayed = [v for v in network.trainable_variables if v.name not in ("gamma", "beta")]
    assert {v.name for v in decayed} >= {"kernel", "bias", "position_embeddings"}
    expected = 4e-5 / 2 * sum((value**2).sum() for value in networks.values(decayed))
    assert float(sum(network.losses)) == pytest.approx(expected, rel=1e-5)
