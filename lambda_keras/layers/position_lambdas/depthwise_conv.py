"""Position lambdas as a depthwise convolution (Figure 5)."""

from keras import ops

from lambda_keras.layers.contraction import contract
from lambda_keras.layers.position_lambdas.apply import flatten_grid


def depthwise_conv(queries, values, embeddings):
    """Convolves every value with the channel multiplier k."""
    *scope, _, k = embeddings.shape
    batch, *grid, v, _ = ops.shape(values)
    kernel = ops.tile(embeddings, (*(1 for _ in scope), v, 1))
    lambdas = ops.depthwise_conv(
        ops.reshape(values, (batch, *grid, v)), kernel, padding="same", data_format="channels_last"
    )
    lambdas = ops.reshape(lambdas, (batch, -1, v, k))
    return contract("bnhk,bnvk->bnhv", flatten_grid(queries), lambdas)
