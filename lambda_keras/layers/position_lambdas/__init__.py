"""Position lambdas applied to their queries, by several implementations.

Every implementation computes the same thing (Eq. 1 and 2, position part),

    outputs[b, n, h, v] = sum_k queries[b, n, h, k] sum_m,u E[n, m, u, k] values[b, m, v, u]

where `E[n, m] = embeddings[m - n + scope // 2]` inside the scope and 0 outside of it, on a grid of
one, two or three axes. Letters of the paper:

    b batch, n query positions, m context positions, r relative positions (the scope),
    k query/key depth, u intra-depth, v value depth, h heads

With relations `r[n, m]` other than offsets, such as the kinds of the edges of a graph, `E[n, m]` is
`embeddings[r[n, m]]`, and 0 where there is none. Masks and relations may be `r[b, n, m]`.

`relative_outputs` and `pair_outputs` run them; `fastest` chooses one by the table `CHOICES`.
"""

from lambda_keras.layers.position_lambdas.api import (
    IMPLEMENTATIONS,
    capable,
    known_common_grid,
    pair_outputs,
    relative_outputs,
)
from lambda_keras.layers.position_lambdas.choices import CHOICES, fastest
from lambda_keras.layers.position_lambdas.dense import dense_tiles
from lambda_keras.layers.position_lambdas.device import compiling_for, device_kind
from lambda_keras.layers.position_lambdas.embeddings import dense_embeddings, dilate, mask_future

__all__ = [
    "CHOICES",
    "IMPLEMENTATIONS",
    "capable",
    "compiling_for",
    "dense_embeddings",
    "dense_tiles",
    "device_kind",
    "dilate",
    "fastest",
    "known_common_grid",
    "mask_future",
    "pair_outputs",
    "relative_outputs",
]
