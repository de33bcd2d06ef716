"""Prints how far a step of a backbone on two devices is from that on one."""

import os
import sys
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parent)]

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import test_backbone  # noqa: E402
import tf_keras  # noqa: E402


def backbone():
    return test_backbone.backbone(tf_keras.regularizers.l2(test_backbone.DECAY / 2))


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


def largest(one, other):
    """The largest difference from the values of an array, in parts of the largest of them."""
    return max(
        float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-3))
        for a, b in zip(one, other, strict=True)
    )


def main():
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    images = np.random.default_rng(0).normal(size=(4, 64, 64, 3)).astype("float32")
    # Halves that are unlike: statistics of each device alone would show.
    images[2:] = 3 * images[2:] + 1
    alone = backbone()
    weights = alone.features.get_weights()
    for place, variable in enumerate(alone.features.weights):
        if variable.name == "gamma":  # 0 would leave branches out
            weights[place] = np.ones_like(weights[place])
    alone.features.set_weights(weights)
    expected = [np.array(gradient) for gradient in step(alone, tf.constant(images))]

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

    found = [np.array(gradient) for gradient in both()]
    results = strategy.experimental_local_results
    copies = [[np.array(c) for c in results(v)] for v in statistics(model)]
    moved = [np.array(variable) for variable in statistics(alone)]
    print("statistics", largest([copy[0] for copy in copies], moved))
    print("gradients", largest(found, expected))
    print("copies", max(largest(copy[:1], copy[1:]) for copy in copies))


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    main()
