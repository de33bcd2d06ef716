"""Embeddings of relations: edges of graphs, distances, time lags (2, 3.3)."""

from lambda_keras.layers.arguments import check_integers
from lambda_keras.layers.positions.base import Positions


class Relation(Positions):
    """`E[n, m] = table[relations[n, m]]`, 0 where the relation is none of the table."""

    def table(self, grid, context_grid):
        return (self.layer.num_relations,)

    def check_call(self, grids, embeddings, relations, shapes):
        check_integers("relations", relations, *shapes)

    def outputs(self, queries, values, embeddings, pairs):
        return self.outputs_of_pairs(queries, values, embeddings, pairs)
