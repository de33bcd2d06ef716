"""The implementations, their capabilities, and the functions that run one of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from keras import ops

from lambda_keras.layers.contraction import contract
from lambda_keras.layers.position_lambdas.apply import flatten_grid
from lambda_keras.layers.position_lambdas.conv import conv, countable, depthwise_conv
from lambda_keras.layers.position_lambdas.dense import (
    dense_matmul,
    dense_tiles,
    einsum,
    query_first,
    query_first_by_relation,
    query_first_in_tiles,
)
from lambda_keras.layers.position_lambdas.embeddings import crop_to_reach, dense_embeddings
from lambda_keras.layers.position_lambdas.fourier import fourier
from lambda_keras.layers.position_lambdas.toeplitz_conv import toeplitz_conv
from lambda_keras.layers.tiles import strided


@dataclass(frozen=True)
class Implementation:
    """One algorithm for position lambdas and its capabilities.

    Attributes:
        outputs: Function that returns `(b, n, h, v)`. With `any_pairs` it takes queries
            `(b, n, h, k)`, values `(b, m, v, u)` and embeddings `(n, m, u, k)`; otherwise queries
            `(b, *grid, h, k)`, values `(b, *grid, v, u)`, embeddings `(*scope, u, k)` and the
            strides of the queries.
        any_pairs: Whether embeddings may be absolute, masked, or of relations.
        own_pairs: Whether each example may have masks and relations of its own.
        causal: Whether no future position leaks, not even by rounding.
        intra_depth: Largest intra-depth u.
        axes: Largest number of axes of the grid.
        unknown_grid: Whether sizes of the grid may be unknown.
    """

    outputs: Callable
    any_pairs: bool = False
    own_pairs: bool = False
    causal: bool = True
    intra_depth: float = math.inf
    axes: int = 3
    unknown_grid: bool = True


IMPLEMENTATIONS = {
    "einsum": Implementation(einsum, any_pairs=True),
    "query_first": Implementation(query_first, any_pairs=True, own_pairs=True),
    "dense_matmul": Implementation(dense_matmul, any_pairs=True),
    "conv": Implementation(conv),
    # Depthwise convolution cannot express an intra-depth above 1, and Keras has none for 3 axes.
    "depthwise_conv": Implementation(depthwise_conv, intra_depth=1, axes=2),
    "toeplitz_conv": Implementation(toeplitz_conv, unknown_grid=False),
    # FFT rounding leaks future positions; its matrices fit one grid size.
    "fourier": Implementation(fourier, causal=False, unknown_grid=False),
}


def capable(**needs) -> tuple[str, ...]:
    """Names of the implementations that meet the needs, after `"auto"`.

    >>> from lambda_keras.layers.position_lambdas import capable
    >>> capable(causal=True, intra_depth=2)
    ('auto', 'einsum', 'query_first', 'dense_matmul', 'conv', 'toeplitz_conv')
    """
    able = [
        name
        for name, can in IMPLEMENTATIONS.items()
        if all(getattr(can, attribute) >= need for attribute, need in needs.items())
    ]
    return ("auto", *able)


def relative_outputs(
    queries, values, embeddings, grid, context_grid, implementation: str, strides: int = 1
):
    """Position outputs for relative embeddings, by one of the implementations.

    Args:
        queries: Tensor `(b, n, h, k)`.
        values: Tensor `(b, m, v, u)`.
        embeddings: Tensor `(*scope, u, k)`.
        grid: Sizes of the axes of the queries, before strides.
        context_grid: Sizes of the axes of the context. If they differ from `grid`, both grids begin
            at the same position.
        implementation: One of `IMPLEMENTATIONS`.
        strides: Queries are on the positions 0, strides, 2 strides, ... of every axis of the grid.

    Returns:
        Tensor `(b, n, h, v)`.
    """
    chosen = IMPLEMENTATIONS[implementation]
    known = known_common_grid(grid, context_grid)
    tiles = None
    if chosen.outputs is query_first:
        tiles = dense_tiles(known, embeddings.shape[:-2], strides)
    if chosen.any_pairs and tiles is None:
        dense = dense_embeddings(embeddings, grid, context_grid, strides=strides)
        return chosen.outputs(queries, values, dense)
    embeddings = crop_to_reach(embeddings, known)
    common = grid
    if grid is not context_grid:
        common = tuple(
            size or ops.maximum(n, m) for size, n, m in zip(known, grid, context_grid, strict=True)
        )
    if chosen.outputs is conv and len(grid) == 1:
        common = countable(common, embeddings.shape[-1])
    query_grid = strided(grid, strides)
    all_queries = query_grid if common is grid else strided(common, strides)
    queries = _on_grid(queries, query_grid, all_queries)
    values = _on_grid(values, context_grid, common)
    if tiles is None:
        outputs = chosen.outputs(queries, values, embeddings, strides)
    else:
        outputs = query_first_in_tiles(queries, values, embeddings, common, tiles, strides)
    if common is grid:
        return outputs
    batch, _, h, v = ops.shape(outputs)
    outputs = ops.reshape(outputs, (batch, *all_queries, h, v))
    return flatten_grid(outputs[(slice(None), *(slice(size) for size in query_grid))])


def pair_outputs(queries, values, embeddings, implementation: str, mask=None, relations=None):
    """Position outputs for embeddings, masks or relations of any pairs.

    Args:
        queries: Tensor `(b, n, h, k)`.
        values: Tensor `(b, m, v, u)`.
        embeddings: Tensor `(n, m, u, k)`, or `(r, u, k)` if there are relations.
        implementation: One of `IMPLEMENTATIONS` for any pairs; pairs `(b, n, m)` need `own_pairs`.
        mask: Bool tensor `(n, m)` or `(b, n, m)`; false where a query does not see a position.
        relations: Integers `(n, m)` or `(b, n, m)`, rows of the embeddings; others are no relation.

    Returns:
        Tensor `(b, n, h, v)`.
    """
    if relations is not None:
        # A one-hot product, because the gradient of a gather is a scatter, which adds up in half
        # precision.
        rows = ops.arange(embeddings.shape[0], dtype="int32")[:, None]
        one_hot = ops.equal(relations[..., None, :], rows)  # (..., n, r, m)
        if mask is not None:
            one_hot = ops.logical_and(one_hot, mask[..., None, :])
        one_hot = ops.cast(one_hot, values.dtype)
        if len(one_hot.shape) == 4:
            return query_first_by_relation(queries, values, embeddings, one_hot)
        embeddings = contract("nrm,ruk->nmuk", one_hot, embeddings)
    elif mask is not None:
        mask = ops.cast(mask, values.dtype)
        if len(mask.shape) == 3:
            return query_first(queries, values, embeddings, mask)
        embeddings = embeddings * mask[:, :, None, None]
    return IMPLEMENTATIONS[implementation].outputs(queries, values, embeddings)


def _on_grid(tensor, grid, common):
    """`(b, n, i, j)` -> `(b, *common, i, j)`, padded with zeros."""
    batch, _, i, j = ops.shape(tensor)
    tensor = ops.reshape(tensor, (batch, *grid, i, j))
    if common is grid:
        return tensor
    padding = [(0, full - size) for full, size in zip(common, grid, strict=True)]
    return ops.pad(tensor, [(0, 0), *padding, (0, 0), (0, 0)])


def known_common_grid(grid, context_grid) -> tuple[int | None, ...]:
    """Sizes of the grid that queries and context are laid on, `None` where unknown."""
    return tuple(
        max(n, m) if isinstance(n, int) and isinstance(m, int) else None
        for n, m in zip(grid, context_grid, strict=True)
    )
