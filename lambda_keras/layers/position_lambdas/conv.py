"""Position lambdas as the lambda convolution (Figures 5 and 8), or as a depthwise one."""

import math

from keras import ops

from lambda_keras.layers.contraction import contract
from lambda_keras.layers.position_lambdas.apply import flatten_grid


def conv(queries, values, embeddings):
    """Convolves over (*grid, v), one axis more than the grid has.

    There are no 4-d convolutions: on a 3-d grid v is folded into the batch instead.
    """
    *scope, u, k = embeddings.shape
    if len(scope) < 3:
        kernel = ops.reshape(embeddings, (*scope, 1, u, k))
        lambdas = ops.conv(values, kernel, padding="same", data_format="channels_last")
    else:
        batch, *grid, v, _ = ops.shape(values)
        folded = ops.reshape(ops.moveaxis(values, -2, 1), (-1, *grid, u))
        lambdas = ops.conv(folded, embeddings, padding="same", data_format="channels_last")
        lambdas = ops.moveaxis(ops.reshape(lambdas, (batch, v, *grid, k)), 1, -2)
    return contract("bnhk,bnvk->bnhv", flatten_grid(queries), flatten_grid(lambdas))


def depthwise_conv(queries, values, embeddings):
    """Convolves every value with the channel multiplier k (Figure 5)."""
    *scope, _, k = embeddings.shape
    batch, *grid, v, _ = ops.shape(values)
    kernel = ops.tile(embeddings, (*(1 for _ in scope), v, 1))
    lambdas = ops.depthwise_conv(
        ops.reshape(values, (batch, *grid, v)), kernel, padding="same", data_format="channels_last"
    )
    lambdas = ops.reshape(lambdas, (batch, -1, v, k))
    return contract("bnhk,bnvk->bnhv", flatten_grid(queries), lambdas)


def countable(grid, k):
    """A sequence one position longer where oneDNN would divide by zero in the backward pass.

    It counts work as `n * n * (blocks of k)` in 32 bits, which is 0 if n has many factors of two.
    """
    (n,) = grid
    period = 2 ** math.ceil((32 - math.log2(k)) / 2)
    if isinstance(n, int):
        return (n + 1,) if n % period == 0 else grid
    return (n + ops.cast(n % period == 0, "int32"),)
