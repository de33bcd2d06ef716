"""Recurrent form of causal lambda layers: a cell of `keras.layers.RNN`."""

import itertools
import math
from typing import Any

import keras
import numpy as np
from keras import ops

from lambda_keras.layers.arguments import check
from lambda_keras.layers.base import POSITION, Layer
from lambda_keras.layers.content_lambdas import HIDDEN
from lambda_keras.layers.contraction import contract
from lambda_keras.layers.lambda_layer import LambdaLayer
from lambda_keras.layers.position_embeddings import relative_positions
from lambda_keras.layers.position_lambdas.embeddings import crop_to_reach


@keras.saving.register_keras_serializable(package="lambda_keras")
class LambdaCell(Layer):
    """Runs a causal `LambdaLayer` one position at a time, with a state of fixed size.

    `keras.layers.RNN(LambdaCell(layer), return_sequences=True)(inputs)` equals `layer(inputs)` in
    inference. Inputs are sequences `(batch, n, depth)`, or maps flattened to sequences in raster
    order. Time and memory of a step do not depend on the number of steps before it. For the content
    lambda, the state holds sums over all of them. For position lambdas, it holds the values that
    the scope still reaches: in a map, `scope // 2` rows and `scope // 2` positions.

    The cell shares the weights of the layer. It computes in float32 whatever the layer's dtype
    policy: under `mixed_bfloat16` its outputs equal the layer's up to bfloat16 rounding. An RNN
    that is stateful or returns its states casts them to its own dtype, so pass `dtype="float32"` to
    `keras.layers.RNN` then.

    Args:
        layer: `LambdaLayer` with `causal=True`, `strides=1`, and `position_embedding="relative"` or
            `None`. A layer that is not yet built is built with the cell.
        grid: Tuple of ints, sizes of the axes of the map; `None` stands for an unknown one. Only
            the first may be unknown, and none with `scope=None`. Defaults to the grid that the
            layer is built for, or a sequence of unknown length.
        **kwargs: `name`, `dtype` and other arguments of `keras.layers.Layer`. `dtype` defaults to
            `"float32"`.

    Call arguments:
        inputs: Tensor `(batch, depth)`, the inputs at one position.
        states: List of tensors `(batch, size)`, one for each of `state_size`:
            `get_initial_state(batch_size)` before the first position.
        training: Must not be true: the statistics of a batch need all positions.

    Returns:
        Tensor `(batch, filters)`, the outputs at this position, and the list of the next states.

    Raises:
        ValueError: If the layer is not causal, has strides, or has embeddings other than its own
            relative ones; if a size of the grid is missing, or is not the one that the layer is
            built for; if `training` is true.

    A padding mask of `keras.layers.RNN` skips positions, as if they were not in the sequence. At
    the end of sequences, this equals the padding mask of the layer.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import LambdaCell, LambdaLayer
    >>> layer = LambdaLayer(32, scope=7, causal=True)
    >>> maps = keras.random.normal((2, 6, 5, 16))
    >>> expected = keras.ops.reshape(layer(maps), (2, 30, 32))
    >>> sequences = keras.ops.reshape(maps, (2, 30, 16))
    >>> outputs = keras.layers.RNN(LambdaCell(layer), return_sequences=True)(sequences)
    >>> bool(keras.ops.max(abs(outputs - expected)) < 1e-3)
    True
    """

    def __init__(self, layer: LambdaLayer, grid: tuple[int | None, ...] | None = None, **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})
        check(isinstance(layer, LambdaLayer), "a LambdaLayer", layer=type(layer))
        check(layer.causal, "a layer with causal=True", causal=layer.causal)
        check(layer.strides == 1, "a layer with strides=1", strides=layer.strides)
        relative = layer.position_embedding in ("relative", None)
        expected = "a layer with relative position embeddings of its own, or without any"
        check(relative, expected, position_embedding=layer.position_embedding)
        if grid is None:
            grid = layer.built_grids[0] if layer.built else (None,)
        is_grid = isinstance(grid, (tuple, list)) and all(
            size is None or (type(size) is int and size > 0) for size in grid
        )
        check(is_grid, "a grid of positive integers, or None where a size is unknown", grid=grid)
        self.layer: Any = layer
        self.grid: tuple[Any, ...] = tuple(grid)
        keys = (layer.groups, layer.key_dim, layer.intra_depth)
        values = (layer.groups, layer.value_dim, layer.intra_depth)
        self._shapes: dict[str, tuple[int, ...]] = {"position": (1,)}
        self._products = math.prod(values) * layer.key_dim  # for one position in the scope
        self._row = 1  # period of the map's borders, in positions
        if layer.use_content:
            if layer.key_normalization == "softmax":
                self._shapes["maxima"] = keys
            self._shapes["sums"] = (*keys, values[1] + 1)
        if layer.position_embedding == "relative":
            self._find_offsets()
            if self._places[0]:
                self._shapes["values"] = (-self._places[0], *values)

    def _find_offsets(self):
        """Offsets of the positions that a query sees, in raster order."""
        sizes = relative_positions(self.layer.scope, self.grid)
        known = "a grid whose sizes are known, but for the first"
        check(None not in self.grid[1:], known, grid=self.grid)
        rate = self.layer.dilation_rate
        self._reachable = [n and (n - 1) // rate + 1 for n in self.grid]  # in dilated steps
        reach = [
            size // 2 if n is None else min(size // 2, n - 1)
            for size, n in zip(sizes, self._reachable, strict=True)
        ]
        offsets = rate * np.array([*itertools.product(*(range(-p, p + 1) for p in reach))])
        self._offsets = offsets[: len(offsets) // 2 + 1]  # (r, axes)
        self._strides = [math.prod(self.grid[axis + 1 :]) for axis in range(len(self.grid))]
        self._row = self._strides[0]
        # The same offsets in the flattened sequence, from the furthest one up to 0.
        self._places = [int(place) for place in self._offsets @ self._strides]

    @property
    def state_size(self) -> list[int]:
        """Sizes of the states of one example."""
        return [math.prod(shape) for shape in self._shapes.values()]

    @property
    def output_size(self) -> int:
        """Depth of the outputs."""
        return self.layer.filters

    def get_initial_state(self, batch_size=None):
        """States before the first position: a list of tensors `(batch, size)`."""
        is_size = hasattr(batch_size, "dtype") or (type(batch_size) is int and batch_size >= 0)
        check(is_size, "a number of examples", batch_size=batch_size)
        return [
            ops.full((batch_size, size), HIDDEN if name == "maxima" else 0.0, self.compute_dtype)
            for name, size in zip(self._shapes, self.state_size, strict=True)
        ]

    def build(self, inputs_shape):
        layer, depth = self.layer, inputs_shape[-1]
        if not layer.built:
            layer.build((None, *self.grid, depth))
        built = layer.query_kernel.shape[0]
        check(depth == built, f"inputs of the layer's depth, {built}", depth=depth)
        if layer.position_embeddings is not None:
            *_, u, k = layer.position_embeddings.shape
            sizes = (*relative_positions(layer.scope, self.grid), u, k)
            fits = tuple(layer.position_embeddings.shape[-len(sizes) :]) == sizes
            fits &= len(layer.built_grids[0]) == len(self.grid)
            built = f"a grid that the layer's embeddings are for, such as {layer.built_grids[0]}"
            check(fits, built, grid=self.grid)

    def call(self, inputs, states=None, training=None):
        check(not training, "training=False, because a step has no statistics", training=training)
        states = states if isinstance(states, (list, tuple)) else ()
        sizes = [state.shape[-1] for state in states]
        expected = f"states of sizes {self.state_size}, such as those of get_initial_state(batch)"
        check(sizes == self.state_size, expected, sizes=sizes)
        if inputs.shape[0] == 0:  # Empty batches crash some backends.
            return ops.zeros((0, self.output_size), self.compute_dtype), list(states)
        batch = ops.shape(inputs)[0]
        previous = {
            name: ops.reshape(state, (batch, *shape))
            for (name, shape), state in zip(self._shapes.items(), states, strict=True)
        }
        groups = self.layer.project_inputs(inputs[:, None], training=False)

        def stack(name):
            tensors = [getattr(group, name)[:, 0] for group in groups]
            return ops.cast(ops.stack(tensors, axis=1), self.compute_dtype)

        queries, values = stack("queries"), stack("values")  # (b, g, h, k), (b, g, v, u)
        position = previous["position"] + 1
        new = {"position": ops.where(position < self._row, position, 0.0)}
        outputs = 0.0
        if "sums" in previous:
            lambdas, sums = self._content_lambdas(stack("keys"), values, previous)
            outputs = contract("bghk,bgkv->bghv", queries, lambdas)
            new |= sums
        if groups[0].embeddings is not None:
            values = values[:, None]  # (b, 1, g, v, u)
            if "values" in previous:
                values = ops.concatenate([previous["values"], values], axis=1)
                new["values"] = values[:, 1:]
            tables = ops.stack([self._table(group) for group in groups])  # (g, r, u, k)
            mixed = contract("bghk,gruk->bghru", queries, tables)
            seen = self._seen(values, previous["position"])  # (b, r, g, v, u)
            outputs = outputs + contract("bghru,brgvu->bghv", mixed, seen)
        if groups[0].bias is not None:
            bias = ops.cast(ops.stack([group.bias for group in groups]), self.compute_dtype)
            outputs = outputs + ops.sum(queries * bias[:, None], axis=-1, keepdims=True)
        outputs = ops.reshape(outputs, (batch, self.output_size))
        sizes = zip(self._shapes, self.state_size, strict=True)
        return outputs, [ops.reshape(new[name], (batch, size)) for name, size in sizes]

    def _content_lambdas(self, keys, values, given):
        """Content lambdas `(b, g, k, v)`, and the new sums over all positions.

        Under a softmax, the sums weigh positions by `exp(keys - maximum)`, the running maximum.
        """
        normalization, sums, new = self.layer.key_normalization, given["sums"], {}
        weights = keys  # (b, g, k, u)
        if normalization == "softmax":
            new["maxima"] = ops.maximum(given["maxima"], keys)
            sums = sums * ops.exp(given["maxima"] - new["maxima"])[..., None]
            weights = ops.exp(keys - new["maxima"])
        norms = weights if normalization == "softmax" else weights * weights
        terms = weights[..., None] * ops.swapaxes(values, -1, -2)[:, :, None]
        new["sums"] = sums + ops.concatenate([terms, norms[..., None]], axis=-1)
        lambdas, norms = ops.split(new["sums"], [values.shape[2]], axis=-1)
        if normalization == "softmax":
            lambdas = lambdas / norms
        elif normalization == "l2":
            lambdas = lambdas / ops.sqrt(ops.maximum(norms, keras.config.epsilon() ** 2))
        return ops.sum(lambdas, axis=3), new

    def _table(self, group):
        """Embeddings `(r, u, k)` of the offsets that a query sees."""
        embeddings = crop_to_reach(group.embeddings, self._reachable)
        embeddings = ops.reshape(embeddings, (-1, *embeddings.shape[-2:]))
        return ops.cast(embeddings[: len(self._offsets)], self.compute_dtype)

    def _seen(self, values, position):
        """Values `(b, r, g, v, u)` in the scope, 0 where an offset crosses a side of the map."""
        seen = ops.take(values, np.subtract(self._places, self._places[0]), axis=1)
        position = ops.cast(position, "int32")  # (b, 1)
        inside = position >= 0
        for axis in range(1, len(self.grid)):
            size = self.grid[axis]
            offsets = ops.convert_to_tensor(self._offsets[:, axis], "int32")
            other = position // self._strides[axis] % size + offsets  # (b, r)
            inside = ops.logical_and(inside, ops.logical_and(other >= 0, other < size))
        if len(self.grid) > 1:
            seen = ops.where(inside[:, :, None, None, None], seen, 0.0)
        return seen

    def count_flops(self, inputs_shape, states_shape=None) -> dict[str, int]:
        """Floating-point operations of one step for one example, by part."""
        del states_shape
        layer = self.layer
        counts = layer.count_flops((None, *(1 for _ in self.grid), inputs_shape[-1]))
        if layer.position_embedding:
            # The layer's count includes one position, the only one of this grid.
            counts[POSITION] += 2 * (len(self._offsets) - 1) * self._products
        return counts

    def get_config(self):
        return {**super().get_config(), "layer": keras.saving.serialize_keras_object(self.layer)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "layer": keras.saving.deserialize_keras_object(config["layer"])})
