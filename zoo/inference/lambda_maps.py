"""Lambdas, lambda maps and attention maps: weights of the values in the output at a query."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from lambda_keras.layers import GlobalAttention, LambdaLayer, LocalAttention
from lambda_keras.layers.arguments import is_integer
from lambda_keras.layers.base import project
from lambda_keras.layers.lambda_layer import Group
from lambda_keras.layers.positions import Pairs
from zoo.errors import refusal, unknown
from zoo.inference.predictions import check_outputs


@dataclass(frozen=True)
class LambdaMaps:
    """Weights of the values at all positions in the output of a lambda layer at one query.

    By Eq. 1 and 2, `output[h] = sum_m (content[h, m] + position[h, m]) values[m]`, plus the
    position bias if the layer has one, and before the pooling of a layer with strides. Both maps
    are of shape `(heads, height, width)`, or None for layers without such lambdas.
    """

    content: np.ndarray | None  # `q . softmax(keys)[m]`
    position: np.ndarray | None  # `q . E[n, m]`, zero outside of the scope


def lambda_layers(model: keras.Model) -> dict[str, tuple[int, int]]:
    """Returns the names of a model's lambda layers, in order, with the sizes of their inputs."""
    return _grids(model, LambdaLayer)


def attention_layers(model: keras.Model) -> dict[str, tuple[int, int]]:
    """Returns the names of global, local and block attention layers, with their input sizes."""
    return _grids(model, (GlobalAttention, LocalAttention))


def lambda_maps(
    model: keras.Model, name: str, image: np.ndarray, row: int, column: int
) -> LambdaMaps:
    """Computes the maps of a lambda layer at one query, a row and column of its input, from 0.

    Maps are sums over the intra-depth. The image is preprocessed.
    """
    layer, groups, grid = _lambda_groups(model, name, image)
    place = _place(name, grid, row, column)

    def weights(part: Group) -> np.ndarray:
        def outputs(values):
            group = part._replace(values=values)
            return layer.apply_lambdas(group, Pairs(grid, grid))[0, place]

        queries = part.queries
        shape = (1, grid[0] * grid[1], queries.shape[2], layer.intra_depth)
        return _derivatives(outputs, tf.zeros(shape, queries.dtype)).reshape(-1, *grid)

    maps = {kind: np.concatenate(heads) for kind, heads in _by_kind(groups, weights).items()}
    check_outputs(name, maps)
    return LambdaMaps(maps.get("content"), maps.get("position"))


def with_lambda_maps(model: keras.Model, names: Sequence[str]) -> keras.Model:
    """Extends a classifier by the maps of lambda layers at all queries, for any batch.

    Outputs are `probabilities`, and for each name `NAME_content` and `NAME_position`, if the layer
    has them: `(batch, height, width, heads, height, width)`, first the row and column of the query,
    then of the values. They equal the maps of `lambda_maps`.
    """
    layers, outputs = lambda_layers(model), {"probabilities": model.output}
    for name in names:
        _check_name(name, layers)
        layer: Any = model.get_layer(name)
        for kind, maps in _AllMaps(layer)(layer.input).items():
            outputs[f"{name}_{kind}"] = maps
    return keras.Model(model.input, outputs)


def lambdas(model: keras.Model, name: str, image: np.ndarray, row: int, column: int) -> np.ndarray:
    """Computes the lambdas of a layer at one query: `(groups, k, v)`; multi-query: one group.

    A lambda is the sum of content and position lambda (Eq. 1), which the layer applies to the query
    (Eq. 2). Arguments as for `lambda_maps`.
    """
    layer, groups, grid = _lambda_groups(model, name, image)
    place = _place(name, grid, row, column)
    rows_by_group = []
    for group in groups:
        # With unit vectors as queries, outputs are the rows of the lambda.
        each = tf.eye(layer.key_dim, dtype=group.queries.dtype)
        each = tf.tile(each[None, None], (1, grid[0] * grid[1], 1, 1))
        rows = layer.apply_lambdas(group._replace(queries=each), Pairs(grid, grid))
        rows_by_group.append(tf.cast(rows[0, place], "float32").numpy())
    check_outputs(name, {"lambdas": rows_by_group})
    return np.stack(rows_by_group)


def attention_maps(
    model: keras.Model, name: str, image: np.ndarray, row: int, column: int
) -> np.ndarray:
    """Computes the attention maps of a layer at one query: `(heads, height, width)`.

    Arguments as for `lambda_maps`.
    """
    layer, inputs, _ = _features(model, name, image, attention_layers(model))
    grid = tuple(inputs.shape[1:3])
    strides = layer.strides // layer.pool_strides  # of the queries
    _place(name, tuple(-(-size // strides) for size in grid), row, column)
    queries, keys = (
        tf.reshape(projected, (1, *grid, projected.shape[-1]))
        for projected in project(inputs, [layer.query_kernel, layer.key_kernel])
    )
    # A channel of values for each of the heads that share keys.
    channels = layer.num_heads // layer.groups

    def outputs(values):
        values = tf.reshape(values, (1, *grid, layer.num_heads))
        heads = layer.attend(queries, keys, values, training=False)[0, row, column]
        # Tiled, so that the diagonal holds value channel i in the output of head i.
        return tf.tile(tf.reshape(heads, (layer.num_heads, channels)), (1, layer.groups))

    shape = (1, grid[0] * grid[1], layer.num_heads, 1)
    maps = _derivatives(outputs, tf.zeros(shape, queries.dtype)).reshape(-1, *grid)
    check_outputs(name, {"attention maps": maps})
    return maps


class _AllMaps(keras.layers.Layer):
    """Maps of a lambda layer at all queries, in one pass and without a gradient."""

    def __init__(self, layer: Any) -> None:
        super().__init__(name=f"{layer.name}_maps", dtype=layer.dtype_policy)
        self.layer = layer

    def call(self, inputs: Any) -> dict[str, Any]:
        layer, (features, *table) = self.layer, _listed(inputs)
        grid = tuple(features.shape[1:3])
        places = grid[0] * grid[1]

        def weights(part: Group) -> Any:
            # With one-hot values, one channel for each place, outputs are the weights.
            each = ops.eye(places, dtype=part.queries.dtype)[None, :, :, None]  # (1, m, m, 1)
            each = ops.tile(each, (ops.shape(features)[0], 1, 1, layer.intra_depth))
            group = part._replace(values=each)
            maps = layer.apply_lambdas(group, Pairs(grid, grid))
            heads = part.queries.shape[2]
            return ops.cast(ops.reshape(maps, (-1, *grid, heads, *grid)), "float32")

        groups = layer.project_inputs(features, None, *table, training=False)
        by_kind = _by_kind(groups, weights)
        return {kind: ops.concatenate(maps, axis=3) for kind, maps in by_kind.items()}


def _by_kind(groups: Sequence[Group], weights: Callable[[Group], Any]) -> dict[str, list]:
    """Applies `weights` to the content lambdas and to the position lambdas of head groups."""
    parts = {
        "content": [g._replace(embeddings=None, bias=None) for g in groups if g.keys is not None],
        "position": [g._replace(keys=None, bias=None) for g in groups if g.embeddings is not None],
    }
    return {kind: list(map(weights, chosen)) for kind, chosen in parts.items() if chosen}


def _grids(model: keras.Model, kinds: Any) -> dict[str, tuple[int, int]]:
    return {
        layer.name: _listed(layer.input)[0].shape[1:3]
        for layer in model.layers
        if isinstance(layer, kinds)
    }


def _features(model: keras.Model, name: str, image: np.ndarray, layers: Collection[str]) -> Any:
    """Returns a layer, its input for an image, and its other inputs."""
    _check_name(name, layers)
    layer: Any = model.get_layer(name)
    before = keras.Model(model.input, layer.input)
    inputs, *others = _listed(before(image[None], training=False))
    return layer, inputs, others


def _check_name(name: str, layers: Collection[str]) -> None:
    if not isinstance(name, str) or name not in layers:
        raise ValueError(f"expected the name of a layer. {unknown(name, layers)}")


def _lambda_groups(model: keras.Model, name: str, image: np.ndarray) -> Any:
    layer, inputs, table = _features(model, name, image, lambda_layers(model))
    groups = layer.project_inputs(inputs, None, *table, training=False)
    return layer, groups, tuple(inputs.shape[1:3])


def _place(name: str, grid: tuple[int, int], row: int, column: int) -> int:
    """Returns the row-major index of a position in a grid."""
    inside = zip((row, column), grid, strict=True)
    if not all(is_integer(index) and 0 <= index < size for index, size in inside):
        raise refusal(f"expected a position in the grid {grid} of {name}", f"({row!r}, {column!r})")
    return row * grid[1] + column


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
