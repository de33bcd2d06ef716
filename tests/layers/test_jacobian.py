"""Jacobians of every layer by vectorized differentiation: the gradients of single outputs.

Batches of one example end the process in TensorFlow's products of matrices of some shapes.
"""

import keras
import numpy as np
import pytest
from support import backends
from support.arrays import assert_near

from lambda_keras import layers
from lambda_keras.layers import position_lambdas
from lambda_keras.models.mixers import MIXERS

SMALL = {"filters": 8, "num_heads": 2, "key_dim": 3, "scope": 3}
CASES = {
    **{
        f"lambda_{name}": layers.LambdaLayer(**SMALL, implementation=name)
        for name in position_lambdas.IMPLEMENTATIONS
    },
    "content": layers.LambdaLayer(**SMALL, position_embedding=None),
    "causal": layers.LambdaLayer(**SMALL, causal=True, multi_query=False, use_bias=True),
    "double": layers.DoubleAttention(gamma_initializer="ones"),
    **{
        name: mixer.layer(8, **{**mixer.arguments, "num_heads": 2})
        for name, mixer in MIXERS.items()
        if mixer.layer is not layers.LambdaLayer and name != "augmented"
    },
    "augmented": layers.AugmentedConvolution(8, num_heads=2, attention_pool=2),
}


def jacobian(layer, x, taken):
    """Derivatives of some outputs of a layer, at once: `(taken, *inputs)`."""

    def outputs(x):
        return keras.ops.take(keras.ops.reshape(layer(x, training=False), (-1,)), taken)

    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.jacrev(outputs)(x)
    if backend == "torch":
        import torch

        return torch.func.jacrev(outputs)(torch.tensor(x)).detach()
    import tensorflow as tf

    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = outputs(x)
    return tape.jacobian(found, x)


# The products of matrices of the others are theirs.
QUICK = ("lambda_query_first", "lambda_conv", "content", "causal", "halo", "linear")


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in CASES if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_equals_single_gradients(name):
    x = np.random.default_rng(0).normal(size=(1, 3, 2, 8)).astype("float32")
    layer = CASES[name]
    layer.build(x.shape)
    received = np.asarray(jacobian(layer, x, [0, 11, 46]))
    for derivatives, number in zip(received, [0, 11, 46], strict=True):
        cotangent = np.eye(48, dtype="float32")[number].reshape(x.shape)
        _, (expected,), _ = backends.output_and_gradients(layer, [x], cotangent, training=False)
        assert np.abs(expected).max() > 0
        assert_near(derivatives, expected)
