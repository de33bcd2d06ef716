"""Local self-attention in place of convolutions (arXiv:1906.05909)."""

import keras
import numpy as np
from keras import ops

from lambda_keras.layers.arguments import check, check_bools
from lambda_keras.layers.attention.base import (
    RelativeAttentionLayer,
    join_heads,
    position_logits,
    relative_embeddings,
    softmax_attention,
    split_heads,
)
from lambda_keras.layers.position_embeddings import standardize_scope
from lambda_keras.layers.tiles import on_grid, tile, untile

# Queries are computed in blocks of this size, each of which sees one window.
BLOCK = 4


@keras.saving.register_keras_serializable(package="lambda_keras")
class LocalAttention(RelativeAttentionLayer):
    """Stand-alone self-attention: every query sees the square neighborhood around it.

    `outputs[n] = sum_m softmax(q[n]·(k[m] + r[m - n])) v[m]` over the neighborhood of n, without
    a scale (Ramachandran et al., 2019, Eq. 2 and 3). The first half of `r` is an embedding of the
    relative row, the second of the relative column; the heads share them.

    Args:
        filters: Int, depth of the outputs, divisible by `num_heads`.
        scope: Odd int, height and width of the neighborhood. Defaults to `7`.
        mask_padding: Bool, whether what is beyond the map is left out of the softmax; `False` for
            zeros that take part. Defaults to `True`.
        **kwargs: Of `RelativeAttentionLayer`, `AttentionLayer` and `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, height, width, depth)`, of finite numbers: queries are computed in
            blocks of 4x4, and NaN or infinity reaches all of a block that sees it. Height and width
            may be unknown.

    Returns:
        Tensor `(batch, height / strides, width / strides, filters)`, sizes rounded up.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import LocalAttention
    >>> images = keras.random.normal((2, 14, 10, 32))
    >>> keras.ops.shape(LocalAttention(64, scope=7)(images))
    (2, 14, 10, 64)
    """

    def __init__(self, filters: int, *, scope: int = 7, mask_padding: bool = True, **kwargs):
        super().__init__(filters, **kwargs)
        check(isinstance(scope, int), "scope to be a positive odd integer", scope=scope)
        standardize_scope(scope)
        check_bools(mask_padding=mask_padding)
        halves = "an even key_dim, one half for rows and one for columns"
        check(self.key_dim % 2 == 0, halves, key_dim=self.key_dim)
        self.scope = scope
        self.mask_padding = mask_padding

    def build(self, inputs_shape):
        super().build(inputs_shape)
        self.add_tables(self.scope, self.scope, self.key_dim // 2)

    def attend(self, queries, keys, values, training):
        del training
        _, height, width, _ = ops.shape(queries)
        halo = self.scope // 2
        window = BLOCK + 2 * halo
        blocks, halos = (BLOCK, BLOCK), (halo, halo)
        queries = split_heads(tile(queries, blocks), self.num_heads)  # (b x, h, n, k)
        keys = split_heads(tile(keys, blocks, halos), self.groups)  # (b x, g, m, k)
        values = split_heads(tile(values, blocks, halos), self.groups)  # (b x, g, m, v)
        row_queries, column_queries = ops.split(queries, 2, axis=-1)
        # Row p of a window is row p - halo of its block.
        rows = relative_embeddings(self.row_embeddings, BLOCK, window, 0)  # (i, p, k / 2)
        columns = relative_embeddings(self.column_embeddings, BLOCK, window, 0)  # (j, q, k / 2)
        offsets = np.arange(window)[None, :] - np.arange(BLOCK)[:, None]
        near = (offsets >= 0) & (offsets < self.scope)
        near = near[:, None, :, None] & near[None, :, None, :]  # (i, j, p, q)
        visible = near.reshape(1, 1, BLOCK**2, window**2)  # (1, 1, n, m)
        if self.mask_padding:
            visible = ops.logical_and(visible, on_grid((height, width), blocks, halos))
        positions = position_logits(row_queries, column_queries, rows, columns)
        outputs = softmax_attention(queries, keys, values, positions, visible)  # (b x, h, n, v)
        return untile(join_heads(outputs, *blocks), (height, width), blocks)

    def attention_products(self, height, width):
        seen = min(self.scope**2, height * width)
        # Two tables of half the depth.
        return self.products(height * width, seen, self.scope)
