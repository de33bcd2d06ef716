"""Kinds of position embeddings of a lambda layer: which pairs of positions share one."""

from lambda_keras.layers.positions.base import Pairs, Positions, vary_by_example
from lambda_keras.layers.positions.kinds import KINDS

__all__ = ["KINDS", "Pairs", "Positions", "vary_by_example"]
