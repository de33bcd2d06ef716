"""Global self-attention with relative positions, as in BoTNet (arXiv:2101.11605)."""

import keras

from lambda_keras.layers.arguments import check_bools
from lambda_keras.layers.attention.base import (
    RelativeAttentionLayer,
    join_heads,
    position_logits,
    relative_embeddings,
    softmax_attention,
    split_heads,
)


@keras.saving.register_keras_serializable(package="lambda_keras")
class GlobalAttention(RelativeAttentionLayer):
    """Self-attention over the whole map, with embeddings of relative rows and columns.

    `outputs[n] = sum_m softmax(k^-1/2 q[n]·k[m] + s q[n]·(row[p - i] + column[q - j])) v[m]` for
    the query in row i and column j and the context position in row p and column q (Srinivas et
    al., 2021, Figure 4; relative logits of Bello et al., 2019, Eq. 3). The embeddings are shared
    by the heads. The maps of attention take memory for `num_heads height^2 width^2` numbers per
    example (Table 4 of LambdaNetworks).

    Args:
        filters: Int, depth of the outputs, divisible by `num_heads`.
        scale_positions: Bool, whether the position term is scaled as the content term is,
            `s = key_dim^-1/2`; `False` for `s = 1`, as in timm. Defaults to `True`.
        **kwargs: Of `RelativeAttentionLayer`, `AttentionLayer` and `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, height, width, depth)` of known height and width.

    Returns:
        Tensor `(batch, height / strides, width / strides, filters)`, sizes rounded up.

    Raises:
        ValueError: Also if the map has not the size that the layer was built for.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import GlobalAttention
    >>> images = keras.random.normal((2, 14, 10, 32))
    >>> keras.ops.shape(GlobalAttention(64, num_heads=4)(images))
    (2, 14, 10, 64)
    """

    fixed_grid = True

    def __init__(self, filters: int, *, scale_positions: bool = True, **kwargs):
        super().__init__(filters, **kwargs)
        check_bools(scale_positions=scale_positions)
        self.scale_positions = scale_positions

    def build(self, inputs_shape):
        super().build(inputs_shape)
        _, height, width, _ = inputs_shape
        self.add_tables(*self.offsets(height, width), self.key_dim)

    def offsets(self, height, width) -> tuple[int, int]:
        """Numbers of relative rows and columns."""
        return 2 * height - 1, 2 * width - 1

    def attend(self, queries, keys, values, training):
        del training
        return self.relative_attention(queries, keys, values)

    def relative_attention(self, queries, keys, values, visible=None):
        """`(b, i, j, h k)`, `(b, P, Q, g k)` and `(b, P, Q, g v)` -> `(b, i, j, h v)`.

        For `visible` see `softmax_attention`.
        """
        (_, i, j, _), (_, p, q, _) = queries.shape, keys.shape
        queries = split_heads(queries, self.num_heads)  # (b, h, n, k)
        keys, values = split_heads(keys, self.groups), split_heads(values, self.groups)
        scaled = queries * self.key_dim**-0.5
        to_positions = scaled if self.scale_positions else queries
        positions = position_logits(
            to_positions,
            to_positions,
            relative_embeddings(self.row_embeddings, i, p, p - 1),
            relative_embeddings(self.column_embeddings, j, q, q - 1),
        )
        return join_heads(softmax_attention(scaled, keys, values, positions, visible), i, j)

    def attention_products(self, height, width):
        return self.products(height * width, height * width, sum(self.offsets(height, width)))
