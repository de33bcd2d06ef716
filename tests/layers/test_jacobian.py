"""Jacobians of every layer by vectorized differentiation: the gradients of single outputs.

Batches of one example end the process in TensorFlow's products of matrices of some shapes.
"""

import keras
import numpy as np
import pytest

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


def jacobian_and_gradients(layer, x, taken):
    """Derivatives of some outputs of a layer, at once and one by one: `(taken, *inputs)`."""

    def outputs(x):
        return keras.ops.take(keras.ops.reshape(layer(x, training=False), (-1,)), taken)

    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        each = [jax.grad(lambda x, i=i: outputs(x)[i])(x) for i in range(len(taken))]
        return jax.jacrev(outputs)(x), each
    if backend == "torch":
        import torch

        x = torch.tensor(x, requires_grad=True)
        each = [torch.autograd.grad(one, x, retain_graph=True)[0] for one in outputs(x)]
        return torch.func.jacrev(outputs)(x).detach(), each
    import tensorflow as tf

    x = tf.constant(x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        found = outputs(x)
        singles = tf.unstack(found)
    return tape.jacobian(found, x), [tape.gradient(one, x) for one in singles]


# The products of matrices of the others are theirs.
QUICK = ("lambda_query_first", "lambda_conv", "content", "causal", "halo", "linear")


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in CASES if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_equals_single_gradients(name):
    x = np.random.default_rng(0).normal(size=(1, 3, 2, 8)).astype("float32")
    layer = CASES[name]
    layer.build(x.shape)
    jacobian, gradients = jacobian_and_gradients(layer, x, [0, 11, 46])
    expected = np.stack([np.asarray(one) for one in gradients])
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(jacobian, expected, atol=1e-5 * np.abs(expected).max())
