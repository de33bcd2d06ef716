"""Appendix C.3 and C.4: settings with which a lambda layer is another layer of the literature."""

import numpy as np
import pytest
from keras import ops
from support.arrays import normal, to_numpy

from lambda_keras.layers import LambdaLayer, LinearAttention

WITHOUT_NORMS = {"query_normalization": None, "value_normalization": None}
DEPTH = 6


def layer_with(x, weights, **arguments):
    """A layer of depth DEPTH that is built for inputs, with some weights by name."""
    layer = LambdaLayer(DEPTH, **{**WITHOUT_NORMS, **arguments})
    layer.build(x.shape)
    for name, value in weights.items():
        getattr(layer, name).assign(value)
    return layer


def test_linear_attention():
    """C.3: without positions, with a softmax of queries over k and of keys over positions."""
    x = normal(2, 5, 4, DEPTH)
    attention = LinearAttention(DEPTH, feature_map="softmax", num_heads=2, key_dim=4)
    attention.build(x.shape)
    kernels = {"query_kernel": normal(DEPTH, 8), "key_kernel": normal(DEPTH, 8, seed=1)}
    kernels["value_kernel"] = normal(DEPTH, DEPTH, seed=2)
    for name, value in kernels.items():
        getattr(attention, name).assign(value)
    settings = {"multi_query": False, "position_embedding": None, "query_normalization": "softmax"}
    layer = layer_with(x, kernels, num_heads=2, key_dim=4, **settings)
    np.testing.assert_allclose(to_numpy(layer(x)), to_numpy(attention(x)), atol=1e-5)


def test_channel_attention():
    """C.4: a lambda that is diagonal and the same for all positions, as of squeeze-and-excitation.

    Each channel is a head with k = v = 1, queries are the inputs, and equal keys make the content
    lambda a mean over positions. The gate is linear: a lambda layer has no sigmoid.
    """
    x, kernel = normal(2, 5, 4, DEPTH), normal(DEPTH, DEPTH, seed=1)
    weights = {"query_kernel": np.eye(DEPTH), "value_kernel": kernel}
    weights["key_kernel"] = np.zeros((DEPTH, DEPTH))
    layer = layer_with(
        x, weights, num_heads=DEPTH, key_dim=1, multi_query=False, position_embedding=None
    )
    gate = x.mean((1, 2), keepdims=True) @ kernel
    np.testing.assert_allclose(to_numpy(layer(x)), x * gate, atol=1e-5)


@pytest.mark.parametrize("implementation", ["auto", "einsum", "conv"])
def test_spatial_attention(implementation):
    """C.4: scalar lambdas, one for each position, as of CBAM without its sigmoid.

    Heads share a position lambda with k = v = 1: a convolution of one map that a projection of all
    channels makes.
    """
    x, kernel = normal(2, 5, 4, DEPTH), normal(DEPTH, 1, seed=1)
    embeddings = normal(3, 3, 1, 1, seed=2)
    weights = {"query_kernel": np.eye(DEPTH), "value_kernel": kernel}
    weights["position_embeddings"] = embeddings
    settings = {"scope": 3, "use_content": False, "implementation": implementation}
    layer = layer_with(x, weights, num_heads=DEPTH, key_dim=1, **settings)
    maps = ops.convert_to_tensor(x @ kernel)
    gate = ops.conv(maps, embeddings, padding="same", data_format="channels_last")
    expected = x * to_numpy(gate)
    np.testing.assert_allclose(to_numpy(layer(x)), expected, atol=1e-5)
