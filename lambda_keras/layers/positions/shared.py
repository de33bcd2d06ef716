"""Relative position embeddings that several lambda layers share (Table 4)."""

from lambda_keras.layers.arguments import check
from lambda_keras.layers.position_embeddings import relative_positions
from lambda_keras.layers.positions.relative import Relative


class Shared(Relative):
    """`Relative`, with the table of a `RelativePositionEmbedding` that the call is given."""

    def table(self, grid, context_grid):
        return None

    def check_call(self, grids, embeddings, relations, shapes):
        layer = self.layer
        table = (*relative_positions(layer.scope, grids[0]), layer.intra_depth, layer.key_dim)
        expected = f"position_embeddings of a RelativePositionEmbedding with shape {table}"
        given = None if embeddings is None else tuple(embeddings.shape)
        check(given == table, f"{expected}, because position_embedding='shared'", shape=given)
