"""The position lambdas as a layer of their own. Importing this imports Keras."""

import math

import keras
from keras import ops

from lambda_keras.layers.position_lambdas import fastest, mask_future, relative_outputs


class PositionLambdas(keras.layers.Layer):
    """Position lambdas applied to their queries: the lambda layer without its other parts.

    Inputs `(b, *grid, h * k + v)` are queries and values side by side, outputs are
    `(b, *grid, h * v)`. Arguments are those of `LambdaLayer`.
    """

    def __init__(self, filters, num_heads, key_dim, scope, implementation, causal, dtype):
        super().__init__(dtype=dtype)
        self.num_heads, self.key_dim, self.scope = num_heads, key_dim, scope
        self.value_dim = filters // num_heads
        self.implementation, self.causal = implementation, causal

    def build(self, input_shape):
        self.embeddings = self.add_weight(
            shape=(*[self.scope] * (len(input_shape) - 2), 1, self.key_dim),
            initializer="random_normal",
        )

    def call(self, inputs, training=False):
        grid, units = tuple(inputs.shape[1:-1]), self.num_heads * self.key_dim
        n = math.prod(grid)
        queries = ops.reshape(inputs[..., :units], (-1, n, self.num_heads, self.key_dim))
        values = ops.reshape(inputs[..., units:], (-1, n, self.value_dim, 1))
        name = self.implementation
        if name == "auto":
            scope = (self.scope,) * len(grid)
            name = fastest(grid, scope, self.value_dim, 1, self.causal, training)
        embeddings = ops.cast(ops.convert_to_tensor(self.embeddings), inputs.dtype)
        if self.causal:
            embeddings = mask_future(embeddings)
        outputs = relative_outputs(queries, values, embeddings, grid, grid, name)
        return ops.reshape(outputs, (-1, *grid, self.num_heads * self.value_dim))
