"""Position lambdas as the lambda convolution (Figures 5 and 8), or as a depthwise one."""

import math

import keras
from keras import ops

from lambda_keras.layers.contraction import contract
from lambda_keras.layers.position_lambdas.apply import convolve, flatten_grid
from lambda_keras.layers.position_lambdas.device import device_kind
from lambda_keras.layers.tiles import strided


def conv(queries, values, embeddings, strides: int = 1):
    """Convolves over (*grid, v), one axis more than the grid has.

    There are no 4-d convolutions: on a 3-d grid v is folded into the batch instead.
    """
    *scope, u, k = embeddings.shape
    steps, dtype = (strides,) * len(scope), values.dtype
    if keras.backend.backend() != "jax" and device_kind() in ("cpu", "runtime"):
        # Gradients of oneDNN's 3-d convolutions in bfloat16 write past the end of their memory.
        values, embeddings = ops.cast(values, "float32"), ops.cast(embeddings, "float32")
    if len(scope) < 3:
        kernel = ops.reshape(embeddings, (*scope, 1, u, k))
        lambdas = convolve(values, kernel, (*steps, 1))
    else:
        batch, *grid, v, _ = ops.shape(values)
        folded = ops.reshape(ops.moveaxis(values, -2, 1), (-1, *grid, u))
        lambdas = convolve(folded, embeddings, steps)
        lambdas = ops.reshape(lambdas, (batch, v, *strided(grid, strides), k))
        lambdas = ops.moveaxis(lambdas, 1, -2)
    lambdas = ops.cast(flatten_grid(lambdas), dtype)
    return contract("bnhk,bnvk->bnhv", flatten_grid(queries), lambdas)


def depthwise_conv(queries, values, embeddings, strides: int = 1):
    """Convolves every value with the channel multiplier k (Figure 5)."""
    *scope, _, k = embeddings.shape
    batch, *grid, v, _ = ops.shape(values)
    kernel = ops.tile(embeddings, (*(1 for _ in scope), v, 1))
    values = ops.reshape(values, (batch, *grid, v))
    lambdas = convolve(values, kernel, (strides,) * len(scope), ops.depthwise_conv)
    lambdas = ops.reshape(lambdas, (batch, -1, v, k))
    return contract("bnhk,bnvk->bnhv", flatten_grid(queries), lambdas)


def countable(grid, k):
    """Lengthens a sequence by one where oneDNN would divide by zero in the backward pass.

    oneDNN counts work as `n * n * (blocks of k)` in 32 bits: 0 if n has many factors of two.
    """
    (n,) = grid
    period = 2 ** math.ceil((32 - math.log2(k)) / 2)
    if isinstance(n, int):
        return (n + 1,) if n % period == 0 else grid
    return (n + ops.cast(n % period == 0, "int32"),)
