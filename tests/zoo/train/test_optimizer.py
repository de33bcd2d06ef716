"""The optimizer, its learning rate over a run, and weight decay."""

import keras
import numpy as np
import pytest
from support import networks

from zoo.config import OptimizerConfig
from zoo.train.optimizer import add_weight_decay, create_optimizer, layer_rates


def schedule(epochs=5, batch_size=128, **settings):
    optimizer = create_optimizer(OptimizerConfig(**settings), batch_size, 10, epochs)
    return lambda steps: np.array([float(optimizer._learning_rate(step)) for step in steps])


@pytest.mark.parametrize("warmup", [0, 20])
def test_warmup_is_linear_then_cosine(warmup):
    rates = schedule(learning_rate=0.2, warmup_epochs=warmup / 10)
    np.testing.assert_allclose(rates(range(warmup)), 0.1 * np.arange(warmup) / 20, atol=1e-6)
    rest = np.arange(51 - warmup)
    expected = 0.05 * (1 + np.cos(np.pi * rest / (50 - warmup)))
    np.testing.assert_allclose(rates(rest + warmup), expected, atol=1e-6)


def test_exponential_decay_of_mobilenet():
    """D.3.2: warm-up to 0.1 at 4096 images, from there a factor of 0.99 every 3 epochs."""
    settings = {"schedule": "exponential", "decay_rate": 0.99, "decay_epochs": 3}
    rates = schedule(350, 4096, learning_rate=0.1 * 256 / 4096, warmup_epochs=5, **settings)
    np.testing.assert_allclose(rates(range(50)), 0.1 * np.arange(50) / 50, rtol=1e-5)
    steps = np.array([50, 79, 80, 109, 110, 3499])
    np.testing.assert_allclose(rates(steps), 0.1 * 0.99 ** ((steps - 50) // 30), rtol=1e-5)


@pytest.mark.parametrize("weight_decay_on", ["kernels", "all_but_batch_norm"])
def test_weight_decay_is_l2_in_the_loss(weight_decay_on):
    network = networks.tiny_model()
    networks.randomize(network)
    add_weight_decay(network, 0.0, weight_decay_on)
    assert network.losses == []
    add_weight_decay(network, 4e-5, weight_decay_on)
    without = {"beta", "gamma"}
    if weight_decay_on == "kernels":
        without |= {"bias", "position_embeddings"}
    variables = [v for v in network.trainable_variables if v.name not in without]
    kernels = {"kernel", "key_kernel", "query_kernel", "value_kernel"}
    assert {v.name for v in variables} == kernels | ({"bias", "position_embeddings"} - without)
    expected = 4e-5 / 2 * sum((value**2).sum() for value in networks.values(variables))
    assert float(sum(network.losses)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("sgd", {"nesterov": True, "momentum": 0.5}, {"nesterov": True, "momentum": 0.5}),
        ("rmsprop", {}, {"momentum": 0.9, "epsilon": 2e-3, "rho": 0.9}),
        ("rmsprop", {"epsilon": 0.5}, {"epsilon": 0.5}),
        ("adamw", {}, {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}),
        ("lamb", {"beta_1": 0.5}, {"beta_1": 0.5, "beta_2": 0.999, "epsilon": 1e-6}),
        ("lion", {"beta_2": 0.5}, {"beta_1": 0.9, "beta_2": 0.5}),
    ],
)
def test_settings_reach_the_optimizer(name, settings, expected):
    config = OptimizerConfig(name=name, global_clipnorm=2, **settings)
    optimizer = create_optimizer(config, batch_size=256, steps_per_epoch=10, epochs=20)
    kinds = {"sgd": "SGD", "rmsprop": "RMSprop", "adamw": "Adam", "lamb": "Lamb", "lion": "Lion"}
    assert isinstance(optimizer, getattr(keras.optimizers, kinds[name]))
    expected |= {"global_clipnorm": 2, "weight_decay": None}  # Keras' own decay
    assert {setting: getattr(optimizer, setting) for setting in expected} == expected


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
    settings = {v.path: optimizer.settings_of(v, 1.0) for v in network.trainable_variables}
    for path, (_, decay) in settings.items():
        assert decay == (0.3 if path.endswith("kernel") else None)
    assert {float(rate) for rate, _ in settings.values()} == {0.5**i for i in range(8)}
    config = config.model_copy(update={"weight_decay_on": "all_but_batch_norm"})
    optimizer = create_optimizer(config, 256, 10, 20, network)
    for variable in network.trainable_variables:
        _, decay = optimizer.settings_of(variable, 1.0)
        assert decay == (None if variable.name in ("gamma", "beta") else 0.3)
    plain = create_optimizer(OptimizerConfig(weight_decay=0.3), 256, 10, 20, network)
    found = [plain.settings_of(v, 1.0) for v in network.trainable_variables]
    assert {decay for _, decay in found} == {None}  # it is in the loss
    assert {float(rate) for rate, _ in found} == {1.0}
