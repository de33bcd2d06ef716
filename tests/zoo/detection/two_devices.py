"""Checks that a step of a backbone on two devices is the one on a single device."""

import os
import sys
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
HERE = Path(__file__).resolve()
sys.path[:0] = [str(folder) for folder in (HERE.parents[3], HERE.parents[2], HERE.parent)]

from support.loopback import virtual_cpus  # noqa: E402

virtual_cpus(2)

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from test_backbone import backbone  # noqa: E402


def step(model, images):
    """Gradients of a mean over the images, as a replica computes its share of them."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    with tf.GradientTape() as tape:
        maps = model(images, training=True)
        loss = sum(tf.reduce_mean(value**2) for value in maps.values()) + tf.add_n(model.losses)
        loss /= replicas
    return tape.gradient(loss, model.trainable_variables)


def statistics(model):
    return [v.value for v in model.features.weights if v.name.startswith("moving_")]


def assert_near(received, expected):
    """To a ten-thousandth of the largest value of each array."""
    for one, other in zip(received, map(np.array, expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * max(np.abs(other).max(), 1e-3))


def main():
    images = np.random.default_rng(0).normal(size=(4, 64, 64, 3)).astype("float32")
    # Halves that are unlike: statistics of each device alone would show.
    images[2:] = 3 * images[2:] + 1
    alone = backbone()
    for variable in alone.features.weights:
        if variable.name == "gamma":  # 0 would leave branches out
            variable.assign(np.ones(variable.shape))
    weights = alone.features.get_weights()
    expected = step(alone, tf.constant(images))

    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        model = backbone()
        model.features.set_weights(weights)
    halves = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(np.split(images, 2)[context.replica_id_in_sync_group])
    )

    @tf.function
    def both():
        gradients = strategy.run(step, args=(model, halves))
        return [strategy.reduce("SUM", gradient, axis=None) for gradient in gradients]

    assert_near(both(), expected)
    for copy in zip(*map(strategy.experimental_local_results, statistics(model)), strict=True):
        assert_near(copy, statistics(alone))


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    main()
