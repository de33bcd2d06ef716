"""Halo attention: local self-attention in blocks (arXiv:2103.12731)."""

import math

import keras
from keras import ops

from lambda_keras.layers.arguments import check, check_bools, check_positive_integers
from lambda_keras.layers.attention.global_attention import GlobalAttention
from lambda_keras.layers.tiles import on_grid, tile, untile


@keras.saving.register_keras_serializable(package="lambda_keras")
class HaloAttention(GlobalAttention):
    """Blocked local self-attention: the queries of a block see the block and a halo around it.

    `outputs[n] = sum_m softmax(k^-1/2 q[n]·k[m] + s q[n]·(row[p - i] + column[q - j])) v[m]` over
    the window of the block (Vaswani et al., 2021, Figure 1), with the relative positions of
    `GlobalAttention`. Rows and columns i, j of queries are counted within the block, p, q of the
    context within the window; the tables have `2 (block_size + 2 halo_size) - 1` rows, as in
    public weights, of which the first `2 halo_size` are never met.

    Args:
        filters: Int, depth of the outputs, divisible by `num_heads`.
        block_size: Int, height and width of the blocks; other maps are padded. Defaults to `8`.
        halo_size: Int, how far a block sees beyond its border. Defaults to `3`.
        mask_padding: Bool, whether what is beyond the map is left out of the softmax; `False` for
            zeros that take part, as in timm. Defaults to `True`.
        scale_positions: Bool, as in `GlobalAttention`. Defaults to `True`.
        strided_queries: Bool, whether `strides` are taken by the queries: of every `strides` rows
            and columns only the first has queries, whose i and j count these only, and nothing is
            pooled (timm's HaloNets). Defaults to `False`.
        **kwargs: Of `RelativeAttentionLayer`, `AttentionLayer` and `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, height, width, depth)`; height and width may be unknown.

    Returns:
        Tensor `(batch, height / strides, width / strides, filters)`, sizes rounded up.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import HaloAttention
    >>> images = keras.random.normal((2, 14, 10, 32))
    >>> keras.ops.shape(HaloAttention(64, block_size=7, halo_size=3)(images))
    (2, 14, 10, 64)
    """

    fixed_grid = False

    def __init__(
        self,
        filters: int,
        *,
        block_size: int = 8,
        halo_size: int = 3,
        mask_padding: bool = True,
        strided_queries: bool = False,
        **kwargs,
    ):
        super().__init__(filters, **kwargs)
        check_positive_integers(block_size=block_size)
        is_size = type(halo_size) is int and halo_size >= 0
        check(is_size, "an integer of at least 0", halo_size=halo_size)
        check_bools(mask_padding=mask_padding, strided_queries=strided_queries)
        divides = not strided_queries or block_size % self.strides == 0
        expected = "block_size to be divisible by strides for strided_queries=True"
        check(divides, expected, block_size=block_size, strides=self.strides)
        self.block_size = block_size
        self.halo_size = halo_size
        self.mask_padding = mask_padding
        self.strided_queries = strided_queries
        self.pool_strides = 1 if strided_queries else self.strides

    def offsets(self, height, width):
        del height, width
        return (2 * (self.block_size + 2 * self.halo_size) - 1,) * 2

    def attend(self, queries, keys, values, training):
        del training
        windows = (self.block_size,) * 2, (self.halo_size,) * 2
        visible = on_grid(ops.shape(keys)[1:3], *windows) if self.mask_padding else None
        query_blocks, _ = windows
        if self.strided_queries:
            queries = queries[:, :: self.strides, :: self.strides]
            query_blocks = (self.block_size // self.strides,) * 2
        outputs = self.relative_attention(
            tile(queries, query_blocks), tile(keys, *windows), tile(values, *windows), visible
        )
        return untile(outputs, ops.shape(queries)[1:3], query_blocks)

    def attention_products(self, height, width):
        blocks = math.ceil(height / self.block_size) * math.ceil(width / self.block_size)
        queries = blocks * self.block_size**2
        if self.strided_queries:
            queries //= self.strides**2
        window = self.block_size + 2 * self.halo_size
        return self.products(queries, window**2, sum(self.offsets(height, width)))
