"""Position outputs from dense embeddings `(n, m, u, k)`: products in three orders."""

import math

from keras import ops

from lambda_keras.layers.contraction import contract
from lambda_keras.layers.position_lambdas.apply import apply_lambdas, flatten_grid
from lambda_keras.layers.position_lambdas.device import device_kind
from lambda_keras.layers.position_lambdas.embeddings import dense_embeddings
from lambda_keras.layers.tiles import equal_tiles, in_tiles

# Longest side of tiles for dense embeddings, by the number of axes.
MAX_DENSE_TILE = {1: 16, 2: 8, 3: 4}


def einsum(queries, values, dense):
    """Computes the position lambdas `(b, n, k, v)` and applies them, as the paper's Figure 3."""
    lambdas = contract("nmuk,bmvu->bnkv", dense, values)
    return contract("bnhk,bnkv->bnhv", queries, lambdas)


def dense_matmul(queries, values, dense):
    """Multiplies `(n k, m u)` by `(m u, b v)`, and applies the lambdas `(n, k, b, v)`."""
    lambdas = contract("nmuk,bmvu->nkbv", dense, values)
    return apply_lambdas("bnhk,nkbv->bnhv", queries, lambdas)


def query_first(queries, values, dense, mask=None):
    """Multiplies queries by embeddings, then by values, which never holds the lambdas.

    A mask `(b, n, m)` is applied in between, so that no example needs embeddings of its own.
    """
    if device_kind() == "runtime":
        # Runtimes broadcast embeddings over the batch; one product per query transposes tensors.
        n, m, u, k = ops.shape(dense)
        embeddings = ops.transpose(ops.reshape(dense, (n, m * u, k)), (0, 2, 1))
        mixed = ops.matmul(queries, embeddings)  # (b, n, h, m u)
        mixed = ops.reshape(mixed, (-1, n, ops.shape(queries)[2], m, u))
    else:
        mixed = contract("bnhk,nmuk->bnhmu", queries, dense)
    if mask is not None:
        mixed = mixed * mask[:, :, None, :, None]
    return contract("bnhmu,bmvu->bnhv", mixed, values)


def query_first_by_relation(queries, values, table, one_hot):
    """Computes `query_first` for relations of each example's own, one-hot `(b, n, r, m)`."""
    by_relation = contract("bnhk,ruk->bnhur", queries, table)
    mixed = contract("bnhur,bnrm->bnhum", by_relation, one_hot)
    return contract("bnhum,bmvu->bnhv", mixed, values)


def dense_tiles(grid, scope, strides: int = 1) -> list[int] | None:
    """Sizes of tiles that make dense embeddings less work, `None` if no tiles do."""
    if None in grid:
        return None
    tiles = [equal_tiles(n, MAX_DENSE_TILE[len(grid)], strides) for n in grid]
    seen = [size + 2 * (reach // 2) for size, reach in zip(tiles, scope, strict=True)]
    tiles = [n if n <= size else tile for n, size, tile in zip(grid, seen, tiles, strict=True)]
    seen = [min(n, size) for n, size in zip(grid, seen, strict=True)]
    # Sequences have nothing better: gradients of long convolutions take three times as long.
    least = 1 if len(grid) == 1 else 2
    return tiles if least * math.prod(seen) < math.prod(grid) else None


def query_first_in_tiles(queries, values, embeddings, grid, tiles, strides: int = 1):
    """`query_first` on a large grid, whose tiles share one table of dense embeddings."""

    def compute(queries, values, around):
        seen = [size + 2 * p for size, p in zip(tiles, around, strict=True)]
        dense = dense_embeddings(embeddings, tiles, seen, around, strides)
        return query_first(flatten_grid(queries), flatten_grid(values), dense)

    reach = [size // 2 for size in embeddings.shape[:-2]]
    return in_tiles(compute, queries, values, grid, tiles, reach, strides)
