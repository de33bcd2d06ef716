"""The kinds of position embeddings of a lambda layer, by its `position_embedding`."""

import math

from keras import ops

from lambda_keras.layers import position_lambdas
from lambda_keras.layers.arguments import check, check_tensor
from lambda_keras.layers.position_embeddings import relative_positions
from lambda_keras.layers.positions.base import Positions
from lambda_keras.layers.tiles import every


class Relative(Positions):
    """`E[n, m] = table[m - n]` inside the scope, which may be dilated, and 0 outside (3.4)."""

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


class Shared(Relative):
    """`Relative`, with the table of a `RelativePositionEmbedding` passed to the call (Table 4)."""

    def table(self, grid, context_grid):
        return None

    def check_call(self, grids, embeddings, relations, shapes):
        layer = self.layer
        table = (*relative_positions(layer.scope, grids[0]), layer.intra_depth, layer.key_dim)
        expected = f"position_embeddings of a RelativePositionEmbedding with shape {table}"
        given = None if embeddings is None else tuple(embeddings.shape)
        check(given == table, f"{expected}, because position_embedding='shared'", shape=given)


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


class Relation(Positions):
    """`E[n, m] = table[relations[n, m]]`, 0 where there is none: graphs, distances (2, 3.3)."""

    def table(self, grid, context_grid):
        return (self.layer.num_relations,)

    def check_call(self, grids, embeddings, relations, shapes):
        check_tensor("relations", relations, "int", *shapes)

    def outputs(self, queries, values, embeddings, pairs):
        return self.outputs_of_pairs(queries, values, embeddings, pairs)


KINDS: dict[str | None, type[Positions]] = {
    "relative": Relative,
    "absolute": Absolute,
    "relation": Relation,
    "shared": Shared,
}
