"""Absolute position embeddings: one for each pair of positions."""

import math

from keras import ops

from lambda_keras.layers.arguments import check
from lambda_keras.layers.positions.base import Positions
from lambda_keras.layers.tiles import every


class Absolute(Positions):
    """`E[n, m] = table[n, m]`, for contexts without structure."""

    def table(self, grid, context_grid):
        known = None not in (*grid, *context_grid)
        expected = "grids of known size, because absolute embeddings are one for each pair"
        check(known, f"{expected} of positions", grid=grid, context_grid=context_grid)
        return math.prod(grid), math.prod(context_grid)

    def check_call(self, grids, embeddings, relations, shapes):
        self.check_built(grids)

    def outputs(self, queries, values, embeddings, pairs):
        if pairs.strides > 1:
            grid = pairs.grid
            table = every(ops.reshape(embeddings, (*grid, -1)), pairs.strides, range(len(grid)))
            embeddings = ops.reshape(table, (-1, *embeddings.shape[1:]))  # (n, m, u, k)
        return self.outputs_of_pairs(queries, values, embeddings, pairs)
