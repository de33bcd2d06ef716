"""Lambda maps: the weights that a query gives to the values of its context."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lambda_keras.layers import LambdaLayer
from lambda_keras.layers.lambda_layer import Group
from zoo.errors import unknown


@dataclass(frozen=True)
class LambdaMaps:
    """Weights of all positions' values in the output of a lambda layer at one position.

    By Eq. 1 and 2, `output[h] = sum_m (content[h, m] + position[h, m]) values[m]`, plus the
    position bias if the layer has one, and before the pooling of a layer with strides.

    Attributes:
        content: `q . softmax(keys)[m]` by head, shape `(heads, height, width)`; None for layers
            without content lambda.
        position: `q . E[n, m]` by head, zero outside of the scope, likewise; None for layers
            without position lambdas.
    """

    content: np.ndarray | None
    position: np.ndarray | None


def lambda_layers(model: keras.Model) -> dict[str, tuple[int, int]]:
    """Returns the names of a model's lambda layers, from first to last, and the grids they see."""
    return {
        layer.name: _listed(layer.input)[0].shape[1:3]
        for layer in model.layers
        if isinstance(layer, LambdaLayer)
    }


def lambda_maps(
    model: keras.Model, name: str, image: np.ndarray, row: int, column: int
) -> LambdaMaps:
    """Computes the maps of one query.

    Args:
        model: Network of the zoo.
        name: Name of one of its lambda layers.
        image: What the model takes, shape `(height, width, channels)`.
        row: Row of the query in the grid that the layer sees, from 0.
        column: Its column.

    Returns:
        The maps; where the intra-depth is above 1, sums over it.

    Raises:
        ValueError: If there is no such lambda layer, or the query lies outside of its grid.
    """
    names = list(lambda_layers(model))
    if name not in names:
        raise ValueError(f"expected the name of a lambda layer. {unknown(name, names)}")
    layer: Any = model.get_layer(name)
    before = keras.Model(model.input, layer.input)
    inputs, *table = _listed(before(image[None], training=False))
    grid = tuple(inputs.shape[1:3])
    if not (0 <= row < grid[0] and 0 <= column < grid[1]):
        raise ValueError(
            f"expected a position in the grid {grid} of {name}. Received: ({row}, {column})"
        )

    def weights(group: Group) -> np.ndarray:
        def outputs(values):
            part = group._replace(values=values, bias=None)
            found = layer.apply_lambdas(part, None, None, grid, grid, training=False)
            return found[0, row * grid[1] + column]

        queries = group.queries
        shape = (1, grid[0] * grid[1], queries.shape[2], layer.intra_depth)
        return _derivatives(outputs, tf.zeros(shape, queries.dtype)).reshape(-1, *grid)

    groups = layer.project_inputs(inputs, None, *table, training=False)
    content = [weights(g._replace(embeddings=None)) for g in groups if g.keys is not None]
    position = [weights(g._replace(keys=None)) for g in groups if g.embeddings is not None]
    return LambdaMaps(
        np.concatenate(content) if content else None,
        np.concatenate(position) if position else None,
    )


def _listed(tensors: Any) -> list:
    """Inputs of a layer, and the embeddings that all layers share, if they do."""
    return tensors if isinstance(tensors, list) else [tensors]


def _derivatives(outputs: Callable, values: tf.Tensor) -> np.ndarray:
    """The derivative of the output of each head by its values, `(1, m, h, u)` -> `(h, m)`.

    Outputs are linear in the values, and alike in all value channels: so the derivatives are the
    weights, and with one channel for each head a single backward pass gives those of all heads.
    """
    with tf.GradientTape() as tape:
        tape.watch(values)
        each_in_its_channel = tf.linalg.trace(outputs(values))
    gradient: Any = tape.gradient(each_in_its_channel, values)
    return tf.cast(tf.reduce_sum(gradient[0], -1), "float32").numpy().T
