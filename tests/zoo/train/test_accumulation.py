"""Parts of a batch one after the other give the step of the whole batch."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import networks

from zoo.config import OptimizerConfig
from zoo.train.loop import TrainingModel
from zoo.train.losses import Objective
from zoo.train.network import with_logits
from zoo.train.optimizer import add_weight_decay, create_optimizer
from zoo.train.updates import GradientAccumulation

BACKEND = keras.backend.backend()
STEPS, BATCH = 3, 12


def fitted(parts: int, name: str, policy: str):
    """Two epochs of three steps; batch statistics are each part's, so they are frozen."""
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(policy)
    try:
        network = networks.linear_model(classes=5)
    finally:
        keras.config.set_dtype_policy("float32")
    network = with_logits(network)
    for layer in network.layers:
        layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0
    settings = {"weight_decay": 0.1, "global_clipnorm": 0.5, "layer_decay": 0.7}
    config = OptimizerConfig(name=name, learning_rate=0.2, warmup_epochs=1, **settings)
    if not config.decoupled:
        add_weight_decay(network, config.weight_decay)
    optimizer = create_optimizer(config, BATCH, STEPS, 2, network)
    if policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**8)
    if parts > 1:
        optimizer = GradientAccumulation(optimizer, parts)
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    weights = np.linspace(0.5, 1.5, 5)
    model = TrainingModel(network, STEPS, 1, ema=0.9, objective=Objective(loss, weights))
    model.compile(
        optimizer,
        loss,
        steps_per_execution=2 if policy == "float32" else 1,
        jit_compile=BACKEND == "jax",
        auto_scale_loss=False,
    )
    rng = np.random.default_rng(0)
    images = rng.normal(size=(STEPS * BATCH, 8, 8, 3)).astype("float32")
    labels = np.eye(5, dtype="float32")[rng.integers(0, 5, len(images))]
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH // parts).repeat()
    history = model.fit(data, epochs=2, steps_per_epoch=STEPS, shuffle=False, verbose=0).history
    assert len({id(v) for v in optimizer.variables}) == len(optimizer.variables)
    assert int(keras.ops.convert_to_numpy(optimizer.iterations)) == 2 * STEPS
    assert model.steps_done == 2 * STEPS
    return networks.values([*network.weights, *model.averages.weights]), history["loss"]


@pytest.mark.parametrize(
    ("name", "policy", "count", "rtol", "atol"),
    [
        ("lamb", "float32", 3, 1e-4, 1e-6),
        pytest.param("sgd", "float32", 3, 1e-4, 1e-6, marks=pytest.mark.slow),
        pytest.param("sgd", "mixed_float16", 2, 2e-2, 2e-3, marks=pytest.mark.slow),  # scaled loss
    ],
)
def test_parts_give_the_step_of_the_whole_batch(name, policy, count, rtol, atol):
    whole, loss = fitted(1, name, policy)
    parts, loss_of_parts = fitted(count, name, policy)
    np.testing.assert_allclose(loss_of_parts, loss, rtol=rtol / 10)
    start = networks.linear_model(classes=5).count_params()
    assert sum(value.size for value in whole) == 2 * start
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(other, one, rtol=rtol, atol=atol)
