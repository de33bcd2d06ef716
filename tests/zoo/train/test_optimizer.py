"""The optimizer, its learning rate over a run, and weight decay."""

import keras
import numpy as np
import pytest
from support import networks

from zoo.config import OptimizerConfig
from zoo.train.loop import Lamb
from zoo.train.optimizer import OPTIMIZERS, add_weight_decay, create_optimizer, layer_rates


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


SHAPES = ((4, 3), (3,), (2, 2))


def gradients(step: int, scale: float = 1.0) -> list[np.ndarray]:
    rng = np.random.default_rng(step)
    return [scale * rng.normal(size=shape).astype("float32") for shape in SHAPES]


def moved(optimizer, factors, decays, steps=4, scale=1.0) -> list[np.ndarray]:
    """Three variables after some steps; the first two have a factor, some have a decay."""
    variables = [keras.Variable(value) for value in gradients(100)]
    optimizer.scale_rates(zip(variables, factors, strict=False))
    for variable, decay in zip(variables, decays, strict=True):
        if decay is not None:
            optimizer.decay([variable], decay)
    for step in range(steps):
        optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients(step, scale)], variables)
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


LAMB = [(None, 1), (0.0, 1), (0.3, 1), (0.3, 1e-4)]  # decays of the last variable, scales


def adam_direction(mean, square, gradient, step, epsilon):
    mean[...] = 0.9 * mean + 0.1 * gradient
    square[...] = 0.999 * square + 0.001 * gradient**2
    return mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + epsilon)


@pytest.mark.parametrize(
    ("name", "decays", "scale"),
    [
        *(("lamb", (None, None, decay), scale) for decay, scale in LAMB),
        ("adamw", (0.2, None, None), 1),
    ],
)
def test_decay_and_ratio_are_those_of_the_papers(name, decays, scale):
    """Of LAMB: variables without a decay have a ratio of 1, as in Adam.

    Where gradients are small, epsilon counts as in the denominator, not below the root.
    AdamW decays before each step, by the rate of the variable.
    """
    expected = [value.astype("float64") for value in gradients(100)]
    state = [(np.zeros(shape), np.zeros(shape)) for shape in SHAPES]
    for step in range(1, 5):
        for number, gradient in enumerate(gradients(step - 1, scale)):
            epsilon = {"lamb": 1e-6, "adamw": 1e-7}[name]
            update = adam_direction(*state[number], gradient, step, epsilon)
            rate = 0.1 * (0.5, 0.25, 1)[number]
            weight, decay = expected[number], decays[number]
            expected[number] = weight * (1 - rate * (decay or 0)) - rate * update
            if name == "lamb" and decay is not None:
                update = update + decay * weight
                ratio = np.linalg.norm(weight) / np.linalg.norm(update)
                expected[number] = weight - rate * ratio * update
    kind, _, defaults = OPTIMIZERS[name]
    received = moved(kind(learning_rate=0.1, **defaults), (0.5, 0.25), decays, scale=scale)
    for one, other in zip(received, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("value", "gradient", "decay", "expected"),
    [
        (0.0, 0.0, 0.1, 0.0),
        (2.0, 0.0, 0.0, 2.0),
        (0.0, -3.0, 0.1, 0.1),  # else a zero kernel would stay zero whatever its gradient
    ],
)
def test_lamb_of_zero_norms_has_a_ratio_of_1(value, gradient, decay, expected):
    weight = keras.Variable(np.full((2, 2), value, "float32"))
    optimizer = Lamb(learning_rate=0.1, epsilon=1e-6)
    optimizer.decay([weight], decay)
    optimizer.apply([keras.ops.full((2, 2), gradient)], [weight])
    np.testing.assert_allclose(keras.ops.convert_to_numpy(weight), expected, rtol=1e-5)


def test_clipping_is_by_the_norm_of_all_gradients():
    sgd, *_ = OPTIMIZERS["sgd"]
    received = moved(sgd(learning_rate=0.1, global_clipnorm=0.5), (), (None,) * 3, steps=1)
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients(0)))
    assert norm > 0.5
    for one, start, gradient in zip(received, gradients(100), gradients(0), strict=True):
        np.testing.assert_allclose(one, start - 0.1 * gradient * 0.5 / norm, rtol=1e-5, atol=1e-6)
