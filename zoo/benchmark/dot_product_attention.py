"""Dot-product attention by Keras' own operation, as a layer. Importing this imports Keras."""

from keras import ops

from lambda_keras.layers.attention.base import AttentionLayer
from lambda_keras.layers.flops import CONTENT


class DotProductAttention(AttentionLayer):
    """Attention without positions, `softmax(key_dim^-1/2 q·k) v`, by the backend's fused path.

    Which is Keras' choice: PyTorch's `scaled_dot_product_attention`; JAX's
    `dot_product_attention`, fused on GPUs and TPUs; TensorFlow has none and computes the maps.
    """

    def attend(self, queries, keys, values, training):
        del training
        batch, height, width, _ = ops.shape(queries)

        def of_heads(tensor, heads):
            """`(b, height, width, heads * depth)` -> `(b, height * width, heads, depth)`."""
            depth = tensor.shape[-1] // heads
            return ops.reshape(tensor, (batch, height * width, heads, depth))

        outputs = ops.dot_product_attention(
            of_heads(queries, self.num_heads),
            of_heads(keys, self.groups),
            of_heads(values, self.groups),
        )
        return ops.reshape(outputs, (batch, height, width, self.filters))

    def attention_products(self, height, width):
        units = self.num_heads * self.key_dim
        return {CONTENT: (height * width) ** 2 * (units + self.filters)}
