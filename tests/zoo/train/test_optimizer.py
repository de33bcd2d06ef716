"""The optimizer, its learning rate over a run, and weight decay."""

import keras
import numpy as np
import pytest
from support import networks

from zoo.config import OptimizerConfig
from zoo.train.optimizer import add_weight_decay, create_optimizer, layer_rates


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


@pytest.mark.parametrize("name", ["sgd", "rmsprop", "adamw", "lamb", "lion"])
def test_settings_reach_the_optimizer(name):
    changes = {"sgd": {"nesterov": True}, "rmsprop": {"epsilon": 0.5}, "lion": {"beta_2": 0.5}}
    config = OptimizerConfig(name=name, global_clipnorm=2, **changes.get(name, {}))
    optimizer = create_optimizer(config, batch_size=256, steps_per_epoch=10, epochs=20)
    assert optimizer.global_clipnorm == 2
    for setting, value in changes.get(name, {}).items():
        assert getattr(optimizer, setting) == value
    assert getattr(optimizer, "beta_1", 0.9) == 0.9
    assert getattr(optimizer, "epsilon", None) == {"rmsprop": 0.5, "adamw": 1e-7, "lamb": 1e-6}.get(
        name
    )
    assert optimizer.weight_decay is None  # Keras' own


def test_rates_fall_from_the_classifier_to_the_stem():
    network = networks.tiny_model()
    rates = layer_rates(network, 0.5)
    assert [id(variable) for variable, _ in rates] == [id(v) for v in network.trainable_variables]
    found = {}
    for variable, rate in rates:
        found.setdefault(rate, set()).add(f"/{variable.path}")
    names = ["stem", "c2_block1", "c2_block2", "c3_block1", "c4_block1", "c5_block1", "c5_block2"]
    expected = {0.5 ** (7 - i): name for i, name in enumerate(names)} | {1.0: "predictions"}
    for rate, name in expected.items():
        assert any(f"/{name}" in path for path in found[rate]), (rate, name)
    assert found.keys() == expected.keys()


def test_decay_and_rates_are_of_the_variables_of_the_network():
    network = networks.tiny_model()
    config = OptimizerConfig(name="adamw", weight_decay=0.3, layer_decay=0.5)
    optimizer = create_optimizer(config, 256, 10, 20, network)
    decays = {v.path: optimizer.decay_of(v) for v in network.trainable_variables}
    assert {decay for path, decay in decays.items() if path.endswith("kernel")} == {0.3}
    assert {decay for path, decay in decays.items() if not path.endswith("kernel")} == {None}
    rates = {float(optimizer.rate_of(v, 1.0)) for v in network.trainable_variables}
    assert rates == {0.5**i for i in range(8)}
    plain = create_optimizer(OptimizerConfig(weight_decay=0.3), 256, 10, 20, network)
    assert {plain.decay_of(v) for v in network.trainable_variables} == {None}  # it is in the loss
    assert {float(plain.rate_of(v, 1.0)) for v in network.trainable_variables} == {1.0}
