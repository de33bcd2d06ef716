"""Lambda maps: the weights of the context's values in the output at one query."""

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
    """Weights of the values at all positions in the output of a lambda layer at one position.

    By Eq. 1 and 2, `output[h] = sum_m (content[h, m] + position[h, m]) values[m]`, plus the
    position bias if the layer has one, and before the pooling of a layer with strides. Both are of
    shape `(heads, height, width)`, or None for layers without such lambdas.
    """

    content: np.ndarray | None  # `q . softmax(keys)[m]`
    position: np.ndarray | None  # `q . E[n, m]`, zero outside of the scope


def lambda_layers(model: keras.Model) -> dict[str, tuple[int, int]]:
    """Returns the names of a model's lambda layers, in order, with the sizes of their inputs."""
    return {
        layer.name: _listed(layer.input)[0].shape[1:3]
        for layer in model.layers
        if isinstance(layer, LambdaLayer)
    }


def lambda_maps(
    model: keras.Model, name: str, image: np.ndarray, row: int, column: int
) -> LambdaMaps:
    """Computes the maps of a layer at one query, a row and column of its input, from 0.

    They are summed over the intra-depth where that is above 1. The image is preprocessed.
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
    """Returns the inputs of a layer as a list, with the shared embeddings if there are any."""
    return tensors if isinstance(tensors, list) else [tensors]


def _derivatives(outputs: Callable, values: tf.Tensor) -> np.ndarray:
    """Differentiates the output of each head by its values, `(1, m, h, u)` -> `(h, m)`.

    Outputs are linear in the values, with the same weights for all value channels: so derivatives
    are the weights, and a single backward pass with one channel per head yields them all.
    """
    with tf.GradientTape() as tape:
        tape.watch(values)
        each_in_its_channel = tf.linalg.trace(outputs(values))
    gradient: Any = tape.gradient(each_in_its_channel, values)
    return tf.cast(tf.reduce_sum(gradient[0], -1), "float32").numpy().T
