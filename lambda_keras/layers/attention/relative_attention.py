"""Self-attention with relative positions: global, in blocks with halos, and local.

The layers of BoTNet (arXiv:2101.11605), HaloNet (arXiv:2103.12731), and stand-alone self-attention
(Ramachandran et al., arXiv:1906.05909).
"""

import math
from typing import ClassVar, Unpack

import keras
import numpy as np
from keras import ops

from lambda_keras.layers.arguments import COUNT, ODD
from lambda_keras.layers.attention.base import (
    RelativeAttentionArguments,
    RelativeAttentionLayer,
    join_heads,
    position_logits,
    relative_embeddings,
    softmax_attention,
    split_heads,
)
from lambda_keras.layers.tiles import on_grid, tile, untile

# Queries of local attention are computed in blocks of this size, each of which sees one window.
BLOCK = 4


@keras.saving.register_keras_serializable(package="lambda_keras")
class GlobalAttention(RelativeAttentionLayer):
    r"""Self-attention over the whole map, with embeddings of relative rows and columns.

    .. math::

        y_n = \sum_m \operatorname{softmax}_m(k^{-1/2}\, q_n \cdot k_m
        + s\, q_n \cdot (r_{p-i} + c_{q-j}))\, v_m

    for the query n in row i and column j and the context position m in row p and column q, with
    embeddings r of relative rows and c of relative columns (Srinivas et al., 2021, Figure 4;
    relative logits of Bello et al., 2019, Eq. 3). Heads share the embeddings.
    The attention maps take memory for `num_heads height^2 width^2` numbers per example (Table 4
    of LambdaNetworks).

    Args:
        filters: Int, depth of the outputs, divisible by `num_heads`.
        scale_positions: Bool, whether the position term is scaled like the content term,
            `s = key_dim^-1/2`; `False` for `s = 1`, as in timm. Defaults to `True`.
        **kwargs: Arguments of `RelativeAttentionLayer`, `AttentionLayer` (`num_heads=8`, `key_dim`,
            `strides=1`, `multi_query=False`) and `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, height, width, depth)` of known height and width.

    Returns:
        Tensor `(batch, height / strides, width / strides, filters)`, sizes rounded up.

    Raises:
        ValueError: If an argument is out of its range, or the map does not have the size that the
            layer was built for.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import GlobalAttention
    >>> images = keras.random.normal((2, 14, 10, 32))
    >>> keras.ops.shape(GlobalAttention(64, num_heads=4)(images))
    (2, 14, 10, 64)
    """

    fixed_grid = True

    def __init__(
        self,
        filters: int,
        *,
        scale_positions: bool = True,
        **kwargs: Unpack[RelativeAttentionArguments],
    ):
        super().__init__(filters, **kwargs)
        self.keep(locals())

    def tables(self, height, width):
        return {
            "row_embeddings": (2 * height - 1, self.key_dim),
            "column_embeddings": (2 * width - 1, self.key_dim),
        }

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

    def pairs(self, height, width):
        return height * width, height * width


@keras.saving.register_keras_serializable(package="lambda_keras")
class HaloAttention(GlobalAttention):
    r"""Blocked local self-attention: the queries of a block see the block and a halo around it.

    .. math::

        y_n = \sum_m \operatorname{softmax}_m(k^{-1/2}\, q_n \cdot k_m
        + s\, q_n \cdot (r_{p-i} + c_{q-j}))\, v_m

    over the window of the block (Vaswani et al., 2021, Figure 1), with the relative positions of
    `GlobalAttention`. Rows and columns i, j of queries are counted within the block, p, q of the
    context within the window. The tables have `2 (block_size + 2 halo_size) - 1` rows, as in
    public weights; the first `2 halo_size` are never used.

    Args:
        filters: Int, depth of the outputs, divisible by `num_heads`.
        block_size: Int, height and width of the blocks; maps are padded to multiples of it.
            Defaults to `8`.
        halo_size: Int, how far a block sees beyond its border. Defaults to `3`.
        mask_padding: Bool, whether the softmax leaves out positions beyond the map; `False` for
            zeros that take part, as in timm. Defaults to `True`.
        scale_positions: Bool, as in `GlobalAttention`. Defaults to `True`.
        strided_queries: Bool, whether the queries are strided and nothing is pooled: only the first
            of every `strides` rows and columns has queries, and i and j count only these (timm's
            HaloNets). Defaults to `False`.
        **kwargs: Arguments of `RelativeAttentionLayer`, `AttentionLayer` (`num_heads=8`, `key_dim`,
            `strides=1`, `multi_query=False`) and `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, height, width, depth)`; height and width may be unknown.

    Returns:
        Tensor `(batch, height / strides, width / strides, filters)`, sizes rounded up.

    Raises:
        ValueError: If an argument is out of its range, or `strides` does not divide `block_size`
            with `strided_queries=True`.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import HaloAttention
    >>> images = keras.random.normal((2, 14, 10, 32))
    >>> keras.ops.shape(HaloAttention(64, block_size=7, halo_size=3)(images))
    (2, 14, 10, 64)
    """

    fixed_grid = False
    constraints: ClassVar = {"halo_size": COUNT}

    def __init__(
        self,
        filters: int,
        *,
        block_size: int = 8,
        halo_size: int = 3,
        mask_padding: bool = True,
        scale_positions: bool = True,
        strided_queries: bool = False,
        **kwargs: Unpack[RelativeAttentionArguments],
    ):
        super().__init__(filters, scale_positions=scale_positions, **kwargs)
        self.keep(locals())
        divides = not strided_queries or block_size % self.strides == 0
        expected = "block_size to be divisible by strides for strided_queries=True"
        self.require(divides, expected, "block_size", "strides")
        self.pool_strides = 1 if strided_queries else self.strides

    def tables(self, height, width):
        del height, width
        window = self.block_size + 2 * self.halo_size
        return super().tables(window, window)

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

    def pairs(self, height, width):
        blocks = math.ceil(height / self.block_size) * math.ceil(width / self.block_size)
        queries = blocks * self.block_size**2
        if self.strided_queries:
            queries //= self.strides**2
        window = self.block_size + 2 * self.halo_size
        return queries, window**2


@keras.saving.register_keras_serializable(package="lambda_keras")
class LocalAttention(RelativeAttentionLayer):
    r"""Stand-alone self-attention: every query sees the square neighborhood around it.

    .. math::

        y_n = \sum_m \operatorname{softmax}_m(q_n \cdot (k_m + r_{m-n}))\, v_m

    over the neighborhood of n, without a scale (Ramachandran et al., 2019, Eq. 2 and 3).
    The first half of r is an embedding of the relative row, the second of the relative column; the
    heads share them.

    Args:
        filters: Int, depth of the outputs, divisible by `num_heads`.
        scope: Odd int, height and width of the neighborhood. Defaults to `7`.
        mask_padding: Bool, whether the softmax leaves out positions beyond the map; `False` for
            zeros that take part. Defaults to `True`.
        **kwargs: Arguments of `RelativeAttentionLayer`, `AttentionLayer` (`num_heads=8`, `key_dim`,
            `strides=1`, `multi_query=False`) and `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, height, width, depth)`, of finite numbers: queries are computed in
            blocks of 4x4, and NaN or infinity spreads to every block that sees it. Height and width
            may be unknown.

    Returns:
        Tensor `(batch, height / strides, width / strides, filters)`, sizes rounded up.

    Raises:
        ValueError: If an argument is out of its range, or `scope` is even, or `key_dim` odd.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import LocalAttention
    >>> images = keras.random.normal((2, 14, 10, 32))
    >>> keras.ops.shape(LocalAttention(64, scope=7)(images))
    (2, 14, 10, 64)
    """

    constraints: ClassVar = {"scope": ODD}

    def __init__(
        self,
        filters: int,
        *,
        scope: int = 7,
        mask_padding: bool = True,
        **kwargs: Unpack[RelativeAttentionArguments],
    ):
        super().__init__(filters, **kwargs)
        self.keep(locals())
        halves = "an even key_dim, one half for rows and one for columns"
        self.require(self.key_dim % 2 == 0, halves, "key_dim")

    def tables(self, height, width):
        del height, width
        half = (self.scope, self.key_dim // 2)
        return {"row_embeddings": half, "column_embeddings": half}

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

    def pairs(self, height, width):
        return height * width, min(self.scope**2, height * width)
