"""Kinds of position embeddings of a lambda layer: which pairs of positions share one."""

from lambda_keras.layers.positions.absolute import Absolute
from lambda_keras.layers.positions.base import Pairs, Positions
from lambda_keras.layers.positions.relation import Relation
from lambda_keras.layers.positions.relative import Relative
from lambda_keras.layers.positions.shared import Shared

# By the `position_embedding` of the layer.
KINDS: dict[str | None, type[Positions]] = {
    "relative": Relative,
    "absolute": Absolute,
    "relation": Relation,
    "shared": Shared,
}

__all__ = ["KINDS", "Pairs", "Positions"]
