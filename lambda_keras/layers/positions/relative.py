"""Relative position embeddings: one for each offset from a query (3.3, 3.4)."""

import math

from lambda_keras.layers import position_lambdas
from lambda_keras.layers.arguments import check
from lambda_keras.layers.position_embeddings import relative_positions
from lambda_keras.layers.positions.base import Positions


class Relative(Positions):
    """`E[n, m] = table[m - n]` inside the scope and 0 outside of it; the scope may be dilated."""

    any_pairs = False

    def table(self, grid, context_grid):
        del context_grid
        return relative_positions(self.layer.scope, grid)

    def check_call(self, grids, embeddings, relations, shapes):
        axes = len(self.layer.built_grids[0])
        expected = f"a grid of {axes} axes, as the position embeddings were built for"
        check(len(grids[0]) == axes, expected, grid=grids[0])
        if self.layer.scope is None:
            self.check_built(grids)

    def seen(self, grid, context_grid):
        seen, scope = math.prod(context_grid), self.layer.scope
        return seen if scope is None else min(seen, math.prod(relative_positions(scope, grid)))

    def outputs(self, queries, values, embeddings, pairs):
        embeddings = position_lambdas.dilate(embeddings, self.layer.dilation_rate)
        if self.layer.causal:
            embeddings = position_lambdas.mask_future(embeddings)  # (*r, u, k)
        grids = pairs.grid, pairs.context_grid
        if pairs.mask is None:
            implementation = self.implementation(values, pairs, embeddings.shape[:-2])
            return position_lambdas.relative_outputs(
                queries, values, embeddings, *grids, implementation, pairs.strides
            )
        dense = position_lambdas.dense_embeddings(embeddings, *grids, strides=pairs.strides)
        return self.outputs_of_pairs(queries, values, dense, pairs)
