"""Common parts of attention layers: projections, heads, strides, relative positions, softmax.

Letters of the einsums:

    b batch (of maps, or of blocks of maps), n query positions, m context positions, h heads,
    g groups of heads that share keys and values, k query/key depth, v value depth

Query n is in row i and column j of its map or block, context position m in row p and column q.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, TypedDict, Unpack

import numpy as np
from keras import initializers, ops

from lambda_keras.layers.arguments import check
from lambda_keras.layers.base import CONTENT, POSITION, PROJECTIONS, Layer, fan_in, project
from lambda_keras.layers.content_lambdas import HIDDEN
from lambda_keras.layers.contraction import contract
from lambda_keras.layers.pooling import average_pool
from lambda_keras.layers.tiles import strided


class MapLayer(Layer, ABC):
    """Base of layers of maps `(batch, height, width, depth)`, with checks of their sizes."""

    filters: int
    strides: int
    # Whether there are weights for every offset of the map that the layer is built for.
    fixed_grid = False

    @abstractmethod
    def outputs(self, inputs, training):
        """Outputs for maps that are not empty and have the size that the layer is built for."""

    def build(self, inputs_shape):
        self.check_shapes(inputs_shape)
        self.built_for = tuple(inputs_shape[1:])

    def call(self, inputs, training=None):
        self.check_shapes(inputs.shape)
        given, built_for, kept = tuple(inputs.shape[1:]), self.built_for, "map and the depth"
        if not self.fixed_grid:  # Only the depth has to match.
            given, built_for, kept = given[2:], built_for[2:], "depth"
        expected = f"the {kept} that the layer was built for, {built_for}"
        check(given == built_for, expected, inputs=given)
        if inputs.shape[0] == 0:  # Empty batches crash some backends.
            return ops.zeros(self.compute_output_shape(inputs.shape), self.compute_dtype)
        return self.outputs(inputs, training)

    def compute_output_shape(self, inputs_shape):
        return (inputs_shape[0], *strided(inputs_shape[1:-1], self.strides), self.filters)

    def check_shapes(self, inputs_shape):
        """Refuses a shape of inputs that the layer cannot be built for."""
        shape = tuple(inputs_shape)
        is_map = len(shape) == 4 and shape[-1] is not None
        check(is_map, "inputs (batch, height, width, depth) of a known depth", inputs=shape)
        check(0 not in shape[1:], "a map and a depth of at least 1", inputs=shape)
        known = "a map of known size, because there are embeddings for every offset in it"
        check(not self.fixed_grid or None not in shape[1:], known, inputs=shape)


class AttentionArguments(TypedDict, total=False):
    """Keyword arguments that subclasses of `AttentionLayer` pass on to it and to Keras."""

    num_heads: int
    key_dim: int | None
    strides: int
    multi_query: bool
    output_projection: bool
    kernel_initializer: Any
    kernel_regularizer: Any
    name: str | None
    dtype: Any
    trainable: bool
    autocast: bool
    activity_regularizer: Any


class RelativeAttentionArguments(AttentionArguments, total=False):
    """Keyword arguments that subclasses of `RelativeAttentionLayer` pass on."""

    embeddings_initializer: Any
    embeddings_regularizer: Any


class AttentionLayer(MapLayer):
    """Base of the attention layers: everything but the attention itself.

    Projects inputs to queries, keys and values without biases, applies the attention of the
    subclass, and pools, with the call and the shapes of `LambdaLayer`. The softmax is computed in
    float32 under any dtype policy. A subclass documents its further arguments, inputs and errors.

    A subclass has at most three methods:

    * `attend(queries, keys, values, training)`, its equation: from maps of concatenated heads
      `(batch, height, width, units)` to `(batch, height, width, filters)`.
    * `attention_products(height, width)` counts its multiply-accumulates for one example, by
      part: a dict with the keys `CONTENT` and `POSITION` of `lambda_keras.layers.base`.
    * A subclass of `RelativeAttentionLayer`, with embeddings of relative positions, has two methods
      in place of `attention_products`. `tables(height, width)` returns names and shapes of the
      embeddings, which become attributes; `pairs(height, width)` returns the number of queries and
      the number of context positions that each of them sees.

    `fixed_grid = True` declares that sizes of weights depend on the map. Other weights are added in
    Keras' own `build`.

    Args:
        filters: Int, depth of the outputs, divisible by `num_heads`; the value depth of a head is
            `filters / num_heads`.
        num_heads: Int, number of heads. Defaults to `8`, as in the layers' papers and in footnote
            2 of LambdaNetworks; `LambdaLayer` has 4 (E.1).
        key_dim: Int, query and key depth of a head. Defaults to `filters / num_heads`.
        strides: Int, strides of the 3-wide average pooling that follows the attention in place of
            a strided convolution (E.1 of LambdaNetworks); `1` for none. Defaults to `1`.
        multi_query: Bool, whether heads share keys and values (Shazeer, 2019). Defaults to
            `False`, multi-head attention, as in the layers' papers.
        output_projection: Bool, whether the outputs pass one more 1x1 projection, without a bias,
            which mixes the heads. Defaults to `False`.
        kernel_initializer: Initializer of all projections. Defaults to `N(0, d^-1/2)`, d the input
            depth of the projection (E.1; the second number is the standard deviation).
        kernel_regularizer: Regularizer of all projections. Defaults to `None`.
        **kwargs: `name`, `dtype` and other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, height, width, depth)`.
        training: Bool, whether batch normalizations, if any, use the statistics of the batch.

    Returns:
        Tensor `(batch, height / strides, width / strides, filters)`, sizes rounded up.

    Raises:
        ValueError: If an argument is out of its range, or does not fit another one or the inputs.
    """

    def __init__(
        self,
        filters: int,
        *,
        num_heads: int = 8,
        key_dim: int | None = None,
        strides: int = 1,
        multi_query: bool = False,
        output_projection: bool = False,
        kernel_initializer=None,
        kernel_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.keep(locals())
        divides = filters % num_heads == 0
        self.require(divides, "filters divisible by num_heads", "filters", "num_heads")
        self.value_dim = filters // num_heads  # of a head
        self.key_dim: int = self.value_dim if key_dim is None else key_dim
        self.kernel_initializer = self.kernel_initializer or fan_in()
        self.pool_strides = strides  # of the pooling after the attention
        self.groups = 1 if multi_query else num_heads  # heads of keys and values

    def build(self, inputs_shape):
        super().build(inputs_shape)
        depth = inputs_shape[-1]
        self.query_kernel = self._add_kernel("query_kernel", depth, self.num_heads * self.key_dim)
        self.key_kernel = self._add_kernel("key_kernel", depth, self.groups * self.key_dim)
        self.value_kernel = self._add_kernel("value_kernel", depth, self.groups * self.value_dim)
        self.output_kernel = None
        if self.output_projection:
            self.output_kernel = self._add_kernel("output_kernel", self.filters, self.filters)

    def _add_kernel(self, name: str, *shape: int):
        initializer, regularizer = copy_of(self.kernel_initializer), self.kernel_regularizer
        return self.add_weight(shape, initializer, name=name, regularizer=regularizer)

    def outputs(self, inputs, training):
        batch, height, width, _ = ops.shape(inputs)
        kernels = [self.query_kernel, self.key_kernel, self.value_kernel]
        queries, keys, values = (
            ops.reshape(projected, (batch, height, width, projected.shape[-1]))
            for projected in project(inputs, kernels)
        )  # (b, height, width, h k), (b, height, width, g k), (b, height, width, g v)
        outputs = self.attend(queries, keys, values, training)  # (b, height, width, h v)
        if self.pool_strides > 1:
            outputs = average_pool(outputs, 3, self.pool_strides)
        if self.output_kernel is not None:
            # The projection commutes with the pooling; after it, the map is smaller.
            _, height, width, _ = ops.shape(outputs)
            (outputs,) = project(outputs, [self.output_kernel])  # (b, n, filters)
            outputs = ops.reshape(outputs, (batch, height, width, self.filters))
        return outputs

    @abstractmethod
    def attend(self, queries, keys, values, training):
        """Applies attention to maps `(b, height, width, units)`, units of concatenated heads.

        Queries have `h k` units, keys `g k`, values `g v` and the outputs `h v = filters`.
        """

    @abstractmethod
    def attention_products(self, height: int, width: int) -> dict[str, int]:
        """Multiply-accumulates of `attend` for one example, by part."""

    def count_flops(self, inputs_shape) -> dict[str, int]:
        _, height, width, depth = inputs_shape
        positions = height * width
        outputs = math.prod(self.compute_output_shape(inputs_shape)[1:3])
        queries = positions if self.pool_strides == self.strides else outputs
        projected = queries * self.num_heads * self.key_dim
        projected += positions * self.groups * (self.key_dim + self.value_dim)
        products = projected * depth + outputs * self.filters**2 * self.output_projection
        parts = {PROJECTIONS: products, **self.attention_products(height, width)}
        return {part: 2 * number for part, number in parts.items()}


class RelativeAttentionLayer(AttentionLayer):
    """Base of the attention layers with embeddings of relative positions.

    Args:
        filters: Int, depth of the outputs.
        embeddings_initializer: Initializer of the position embeddings. Defaults to
            `N(0, key_dim^-1/2)`.
        embeddings_regularizer: Regularizer of the position embeddings. Defaults to `None`.
        **kwargs: Arguments of `AttentionLayer` and `keras.layers.Layer`.
    """

    def __init__(
        self,
        filters: int,
        *,
        embeddings_initializer=None,
        embeddings_regularizer=None,
        **kwargs: Unpack[AttentionArguments],
    ):
        super().__init__(filters, **kwargs)
        self.keep(locals())
        normal = initializers.RandomNormal(stddev=self.key_dim**-0.5)
        self.embeddings_initializer = self.embeddings_initializer or normal

    @abstractmethod
    def tables(self, height: int, width: int) -> dict[str, tuple[int, int]]:
        """Names and shapes `(offsets, depth)` of the embeddings, which all heads share."""

    @abstractmethod
    def pairs(self, height: int, width: int) -> tuple[int, int]:
        """Numbers of queries of an example, and of context positions that each of them sees."""

    def build(self, inputs_shape):
        super().build(inputs_shape)
        regularizer = self.embeddings_regularizer
        for name, shape in self.tables(*inputs_shape[1:3]).items():
            initializer = copy_of(self.embeddings_initializer)
            weight = self.add_weight(shape, initializer, name=name, regularizer=regularizer)
            setattr(self, name, weight)

    def attention_products(self, height, width):
        """Multiply-accumulates, by part: a query meets each offset of the tables once."""
        (queries, seen), units = self.pairs(height, width), self.num_heads * self.key_dim
        elements = sum(map(math.prod, self.tables(height, width).values()))
        return {
            CONTENT: queries * seen * (units + self.filters),
            POSITION: queries * elements * self.num_heads,
        }

    def count_map_elements(self, inputs_shape) -> int:
        """Elements of the attention maps `(b, h, n, m)` of a batch (Table 4)."""
        batch, height, width, _ = inputs_shape
        return batch * self.num_heads * math.prod(self.pairs(height, width))


def copy_of(initializer):
    """Copies an initializer, because one object draws equal numbers for equal shapes."""
    return initializer.clone() if hasattr(initializer, "clone") else initializer


def relative_embeddings(table, queries: int, positions: int, first: int):
    """`E[n, m] = table[m - n + first]` of shape `(queries, positions, depth)`.

    Offsets beyond the table get its nearest row; the caller has to mask them.
    """
    offsets = np.arange(positions)[None, :] - np.arange(queries)[:, None] + first
    offsets = np.clip(offsets, 0, table.shape[0] - 1).astype("int32")
    return ops.take(ops.convert_to_tensor(table), offsets, axis=0)


def split_heads(tensor, heads: int):
    """`(b, height, width, heads * depth)` -> `(b, heads, height * width, depth)`."""
    batch, height, width, units = ops.shape(tensor)
    tensor = ops.reshape(tensor, (batch, height * width, heads, units // heads))
    return ops.transpose(tensor, (0, 2, 1, 3))


def join_heads(tensor, height, width):
    """`(b, heads, height * width, depth)` -> `(b, height, width, heads * depth)`."""
    batch, heads, _, depth = ops.shape(tensor)
    tensor = ops.transpose(tensor, (0, 2, 1, 3))
    return ops.reshape(tensor, (batch, height, width, heads * depth))


def position_logits(row_queries, column_queries, rows, columns):
    """`row_queries·rows[i, p] + column_queries·columns[j, q]`, in float32.

    Queries `(b, h, n, k)`, rows `(i, p, k)`, columns `(j, q, k)` -> `(b, h, n, m)`.
    """
    (i, p, k), (j, q, _) = rows.shape, columns.shape
    batch, heads, _, _ = ops.shape(row_queries)
    row_queries = ops.reshape(row_queries, (-1, i, j, k))
    column_queries = ops.reshape(column_queries, (-1, i, j, k))
    by_row = contract("aijk,ipk->aijp", row_queries, rows)  # (b h, i, j, p)
    by_column = contract("aijk,jqk->aijq", column_queries, columns)  # (b h, i, j, q)
    by_row = ops.reshape(ops.cast(by_row, "float32"), (-1, p, 1))
    by_column = ops.reshape(ops.cast(by_column, "float32"), (-1, 1, q))
    return ops.reshape(by_row + by_column, (batch, heads, i * j, p * q))


def softmax(x, axis=-1):
    """Softmax in float32."""
    x = ops.cast(x, "float32")
    if x.shape[axis] == 1:  # Keras warns about a softmax over one element.
        return ops.exp(x - x)  # 1, with a gradient
    return ops.softmax(x, axis=axis)


def softmax_attention(queries, keys, values, positions, visible=None):
    """`softmax(queries·keys + positions) values`, the softmax in float32.

    Queries `(b, h, n, k)`, keys `(b, g, m, k)`, values `(b, g, m, v)` and float32 positions
    `(b, h, n, m)` of `position_logits` -> `(b, h, n, v)`. A bool tensor `visible` of shape
    `(x, 1, n, m)` or `(x, 1, 1, m)` is false where a query does not see a context position; the b
    blocks are x of each example.
    """
    batch, heads, n, k = ops.shape(queries)
    _, groups, m, v = ops.shape(values)
    # Heads that share keys are treated as further queries.
    queries = ops.reshape(queries, (batch, groups, heads // groups * n, k))
    content = contract("bgnk,bgmk->bgnm", queries, keys)  # (b, g, n, m)
    logits = ops.reshape(ops.cast(content, "float32"), (batch, heads, n, m)) + positions
    if visible is not None:
        by_example = ops.reshape(logits, (-1, ops.shape(visible)[0], heads, n, m))
        logits = ops.where(visible, by_example, HIDDEN)
        logits = ops.reshape(logits, (batch, heads, n, m))
    weights = ops.cast(softmax(logits), values.dtype)
    weights = ops.reshape(weights, (batch, groups, heads // groups * n, m))
    outputs = contract("bgnm,bgmv->bgnv", weights, values)  # (b, g, n, v)
    return ops.reshape(outputs, (batch, heads, n, v))
