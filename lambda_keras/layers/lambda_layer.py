"""The lambda layer (Bello, ICLR 2021, arXiv:2102.08602)."""

import math
from typing import Any, NamedTuple

import keras
from keras import initializers, ops, regularizers

from lambda_keras.layers import position_lambdas
from lambda_keras.layers.arguments import (
    check,
    check_batch_norm,
    check_bools,
    check_choices,
    check_integers,
    check_mask,
    check_positive_integers,
)
from lambda_keras.layers.base import CONTENT, POSITION, PROJECTIONS, Layer, fan_in, project
from lambda_keras.layers.batch_normalization import inner_batch_norm
from lambda_keras.layers.content_lambdas import KEY_NORMALIZATIONS, content_outputs, up_to_own
from lambda_keras.layers.pooling import average_pool
from lambda_keras.layers.position_embeddings import (
    relative_positions,
    standardize_scope,
    unit_normal,
)
from lambda_keras.layers.tiles import every, strided

CHOICES = {
    "position_embedding": ("relative", "absolute", "relation", "shared", None),
    "query_normalization": ("batch", "softmax", "batch_softmax", None),
    "key_normalization": KEY_NORMALIZATIONS,
    "value_normalization": ("batch", None),
    "implementation": ("auto", *position_lambdas.IMPLEMENTATIONS),
}
# Position embeddings that are those of any pairs of positions, and have no scope.
OF_PAIRS = ("absolute", "relation")


class Group(NamedTuple):
    """Queries, keys, values and position embeddings of one head group; `None` where it has none."""

    queries: Any  # (b, n, h, k)
    keys: Any  # (b, m, k, u)
    values: Any  # (b, m, v, u)
    embeddings: Any  # (*r, u, k), (n, m, u, k) or (r, u, k)
    bias: Any  # (k,)


@keras.saving.register_keras_serializable(package="lambda_keras")
class LambdaLayer(Layer):
    r"""Lambda layer: a context becomes a linear function, which is applied to each query.

    .. math::

        y_n = (\lambda^c + \lambda^p_n)^\top q_n

    .. math::

        \lambda^c = \operatorname{softmax}(K)^\top V, \qquad \lambda^p_n = E_n^\top V

    (Eq. 1 and 2) with queries q, keys K, whose softmax is over the context positions, values V and
    position embeddings E. Several queries (heads) per position share a lambda (multi-query, Figures
    3 and 5).

    Queries and values pass a batch normalization. Relative position embeddings make the layer
    translation equivariant (3.3); outside of the scope they are zero (3.4). Weights are initialized
    as in E.1. Softmax and statistics are computed in float32 under any dtype policy.

    Args:
        filters: Int, depth d of the outputs, divisible by `num_heads`; the value depth is
            v = d / h.
        num_heads: Int, number h of queries per position. Defaults to `4`.
        key_dim: Int, query and key depth k. Defaults to `16`.
        intra_depth: Int, intra-depth u of keys, values and embeddings (B.4). Defaults to `1`.
        scope: Odd int or tuple of odd ints, one for each axis of the grid: the neighborhood that
            position lambdas see (3.4); or `None` for the whole context, with an embedding for
            every offset in the grid that the layer is built for. Defaults to `23`.
        strides: Int, of the 3-wide average pooling that follows the layer in place of a strided
            convolution (E.1), which causal layers cannot have. Defaults to `1`.
        dilation_rate: Int, distance between the positions in the scope (3.4). Defaults to `1`.
        multi_query: Bool; `False` for keys, values and embeddings of each head's own (multi-head,
            Figure 7). Defaults to `True`.
        use_content: Bool, whether there is a content lambda (Table 10). Defaults to `True`.
        position_embedding: `"relative"`; `"absolute"`, one embedding for each pair of positions,
            for contexts without structure (the scope is ignored); `"relation"`, one embedding for
            each of `num_relations` kinds of pairs, which the call is given as `relations`, such as
            edges of graphs, distances or time lags (2, 3.3; the scope is ignored); `"shared"`,
            relative ones of a `RelativePositionEmbedding` given to the call (Table 4); or `None`
            for no position lambdas (Table 10). Defaults to `"relative"`.
        num_relations: Int, number r of relations, for `position_embedding="relation"` only.
            Defaults to `None`.
        use_bias: Bool, whether all position lambdas have a learned bias of depth k, as those of
            PyTorch implementations. Defaults to `False`.
        use_projection_bias: Bool, whether queries and values have a learned bias, before
            normalizations. `fold_batch_normalization` needs it. Defaults to `False`.
        causal: Bool, whether a query sees only the context positions up to its own, in raster
            order (B.2). What comes later then changes neither outputs nor gradients, as long as it
            is finite: it is multiplied by 0. In training, the statistics of batch normalizations
            are those of all positions, too. Defaults to `False`.
        query_normalization: `"batch"`, `"softmax"` (over k), `"batch_softmax"`, one after the
            other, or `None` (Table 12). Defaults to `"batch"`.
        key_normalization: `"softmax"`, `"l2"` or `None`, over the context positions (Table 12).
            Defaults to `"softmax"`.
        value_normalization: `"batch"` or `None` (Table 12). Defaults to `"batch"`.
        implementation: How position lambdas are computed, `"einsum"`, `"query_first"`,
            `"dense_matmul"`, `"conv"`, `"depthwise_conv"`, `"toeplitz_conv"` or `"fourier"`;
            results differ by rounding only. `position_lambdas.IMPLEMENTATIONS` has the limits of
            each. `"auto"` takes the fastest on the kind of device. Defaults to `"auto"`.
        momentum: Float from 0 to 1, of the batch normalizations. Defaults to `0.99`.
        epsilon: Positive float, of the batch normalizations. Defaults to `1e-5`.
        query_initializer: Defaults to `N(0, (k d)^-1/2)`, the second a standard deviation (E.1).
        key_initializer: Defaults to `N(0, d^-1/2)` (E.1).
        value_initializer: Defaults to `N(0, d^-1/2)` (E.1).
        embeddings_initializer: Defaults to `N(0, 1)` (E.1). In training, outputs of a new layer
            then have a standard deviation of `sqrt(key_dim * intra_depth * positions in the
            scope)`, less at borders: 26 with `scope=7` on 28x28 positions, 73 with `23`, 112 with
            `None`. In the networks a normalization follows. For a layer with a local scope that
            stands alone, an initializer that makes it about 1 is
            `keras.initializers.VarianceScaling(1 / intra_depth, "fan_out", "untruncated_normal")`.
        kernel_regularizer: Regularizer of the three projections. Defaults to `None`.
        embeddings_regularizer: Regularizer of the position embeddings. Defaults to `None`.
        strided_queries: Bool, whether `strides` are taken by the queries (3.4): only the first of
            every `strides` positions of an axis has queries, and nothing is pooled. The context
            stays the whole grid, and the weights are the same. In inference, outputs are those of
            `strides=1` at these positions, and position lambdas cost 1 / `strides` for each axis.
            In training, batch statistics of queries are those of the queries that are computed.
            Defaults to `False`.
        **kwargs: `name`, `dtype` and other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, *grid, depth)` with a grid of one, two or three axes, channels
            last: sequences, images or video. Sizes of the grid may be unknown if the scope is
            local.
        context: Tensor `(batch, *context grid, context depth)`, of the same rank as `inputs`.
            Defaults to `inputs`.
        position_embeddings: Tensor `(*relative positions, u, k)`, the output of a
            `RelativePositionEmbedding`, if `position_embedding="shared"`.
        attention_mask: Bool tensor `(n, m)`, shared by the batch, or `(batch, n, m)`: which context
            positions each query sees (Figure 6), as long as the others are finite; n counts the
            queries that are computed. Keys are normalized over these only. Under a softmax, keys
            more than about 80 below the largest one, hidden ones too, weigh nothing; `causal=True`
            lifts this limit, for memory of `n m k u` numbers per example. Content lambdas of each
            query take `n k v u` numbers per example; positions take `n m u h` with masks of each
            example's own.
        relations: Integers `(n, m)`, shared by the batch, or `(batch, n, m)`, if
            `position_embedding="relation"`: the relation of each query to each context position,
            from 0. Pairs with -1 have none, and no position lambda. A graph cannot check values:
            any other number out of range counts as none, too. Shared relations take `n m (r + u k)`
            numbers, others `n m (r + u h)` per example.
        mask: Bool tensor `(batch, *grid)`, Keras' padding mask of `inputs`: false positions are
            neither context nor part of the batch statistics.
        context_mask: Bool tensor `(batch, *context grid)`, the same for `context`.
        training: Bool, whether batch normalizations use the statistics of the batch.

    Returns:
        Tensor `(batch, *grid, filters)`, with the grid divided by `strides`, rounded up.

    Raises:
        ValueError: If an argument is out of its range, or does not fit another one or the inputs.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import LambdaLayer
    >>> images = keras.random.normal((2, 14, 10, 32))
    >>> keras.ops.shape(LambdaLayer(64, scope=7)(images))
    (2, 14, 10, 64)
    """

    def __init__(
        self,
        filters: int,
        num_heads: int = 4,
        key_dim: int = 16,
        intra_depth: int = 1,
        scope: int | tuple[int, ...] | None = 23,
        strides: int = 1,
        dilation_rate: int = 1,
        multi_query: bool = True,
        use_content: bool = True,
        position_embedding: str | None = "relative",
        num_relations: int | None = None,
        use_bias: bool = False,
        use_projection_bias: bool = False,
        causal: bool = False,
        query_normalization: str | None = "batch",
        key_normalization: str | None = "softmax",
        value_normalization: str | None = "batch",
        implementation: str = "auto",
        momentum: float = 0.99,
        epsilon: float = 1e-5,
        query_initializer=None,
        key_initializer=None,
        value_initializer=None,
        embeddings_initializer=None,
        kernel_regularizer=None,
        embeddings_regularizer=None,
        strided_queries: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.filters = filters
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.intra_depth = intra_depth
        self.scope = standardize_scope(scope)
        self.strides = strides
        self.strided_queries = strided_queries
        self.dilation_rate = dilation_rate
        self.multi_query = multi_query
        self.use_content = use_content
        self.position_embedding = position_embedding
        self.num_relations = num_relations
        self.use_bias = use_bias
        self.use_projection_bias = use_projection_bias
        self.causal = causal
        self.query_normalization = query_normalization
        self.key_normalization = key_normalization
        self.value_normalization = value_normalization
        self.implementation = implementation
        self.momentum = momentum
        self.epsilon = epsilon
        self._check_arguments()
        self.query_initializer = initializers.get(query_initializer or fan_in(1 / key_dim))
        self.key_initializer = initializers.get(key_initializer or fan_in(1.0))
        self.value_initializer = initializers.get(value_initializer or fan_in(1.0))
        self.embeddings_initializer = unit_normal(embeddings_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.embeddings_regularizer = regularizers.get(embeddings_regularizer)
        self.supports_masking = True

    def _check_arguments(self):
        def named(*names):
            return {name: getattr(self, name) for name in names}

        check_positive_integers(
            **named("filters", "num_heads", "key_dim", "intra_depth", "strides", "dilation_rate")
        )
        flags = ("multi_query", "use_content", "use_bias", "use_projection_bias", "causal")
        check_bools(**named(*flags, "strided_queries"))
        check_batch_norm(**named("momentum", "epsilon"))
        divides = self.filters % self.num_heads == 0
        check(divides, "filters divisible by num_heads", **named("filters", "num_heads"))
        for name, choices in CHOICES.items():
            check_choices(choices, **named(name))
        position = named("position_embedding")
        has_positions = self.position_embedding is not None
        is_shared = self.position_embedding == "shared"
        lambdas = "a content lambda or position lambdas"
        check(self.use_content or has_positions, lambdas, **named("use_content"), **position)
        biased = "position lambdas for use_bias=True, which is their bias"
        check(has_positions or not self.use_bias, biased, **position)
        number = self.num_relations
        of_relations = type(number) is int and number >= 1
        fits = of_relations if self.position_embedding == "relation" else number is None
        expected = "num_relations, a positive integer, for position_embedding='relation' only"
        check(fits, expected, **named("num_relations"), **position)
        multi_query = "multi_query=True for shared embeddings"
        check(self.multi_query or not is_shared, multi_query, **named("multi_query"))
        unpooled = "strides=1 for causal=True, or strided_queries=True, as pooling sees the future"
        pooled = self.strides > self._query_strides
        check(not (pooled and self.causal), unpooled, **named("strides", "strided_queries"))
        if self.position_embedding in OF_PAIRS:
            self._check_implementation(f"{self.position_embedding} embeddings", any_pairs=True)
        if self.causal:
            self._check_implementation("causal=True", causal=True)
        self._check_implementation(f"intra_depth={self.intra_depth}", intra_depth=self.intra_depth)

    def _check_implementation(self, purpose, **needs):
        capable = position_lambdas.capable(**needs)
        fits = self.position_embedding is None or self.implementation in capable
        expected = f"one of the implementations {capable} for {purpose}"
        check(fits, expected, implementation=self.implementation)

    def build(self, inputs_shape, context_shape=None):
        context_shape = inputs_shape if context_shape is None else context_shape
        self.check_shapes(inputs_shape, context_shape)
        grid, context_grid = tuple(inputs_shape[1:-1]), tuple(context_shape[1:-1])
        tables = () if self.multi_query else (self.num_heads,)
        positions = self._embedded_positions(grid, context_grid)
        self.position_embeddings = None
        if positions is not None:
            self.position_embeddings = self.add_weight(
                name="position_embeddings",
                shape=(*tables, *positions, self.intra_depth, self.key_dim),
                initializer=self.embeddings_initializer,
                regularizer=self.embeddings_regularizer,
            )
        self.position_bias = None
        if self.use_bias:
            shape = (*tables, self.key_dim)
            self.position_bias = self.add_weight(
                shape=shape, initializer="zeros", name="position_bias"
            )
        self.built_grids = (grid, context_grid)
        self._groups = math.prod(tables)
        units = self._groups * self.intra_depth
        depth, context_depth = inputs_shape[-1], context_shape[-1]
        query_units, value_units = self.num_heads * self.key_dim, units * self._value_dim
        self.query_kernel = self._add_kernel("query", depth, query_units)
        self.value_kernel = self._add_kernel("value", context_depth, value_units)
        self.key_kernel = None
        if self.use_content:
            self.key_kernel = self._add_kernel("key", context_depth, units * self.key_dim)
        self.query_bias = self.value_bias = None
        if self.use_projection_bias:
            self.query_bias = self._add_bias("query_bias", query_units)
            self.value_bias = self._add_bias("value_bias", value_units)
        self.query_batch_norm = self.value_batch_norm = None
        if self.query_normalization in ("batch", "batch_softmax"):
            shape = (None, None, query_units)
            self.query_batch_norm = inner_batch_norm(self, "query_batch_norm", shape)
        if self.value_normalization == "batch":
            shape = (None, None, value_units)
            self.value_batch_norm = inner_batch_norm(self, "value_batch_norm", shape)

    def call(
        self,
        inputs,
        context=None,
        position_embeddings=None,
        attention_mask=None,
        relations=None,
        mask=None,
        context_mask=None,
        training=None,
    ):
        own_context = context is None
        self._check_call(inputs, context, position_embeddings, attention_mask, relations)
        self._check_batch(inputs, context, mask, context_mask)
        if inputs.shape[0] == 0:  # Empty batches crash some backends.
            return ops.zeros(self.compute_output_shape(inputs.shape), self.compute_dtype)
        batch, *grid, _ = ops.shape(inputs)
        context_grid = grid if own_context else ops.shape(context)[1:-1]
        padding = _flatten_mask(mask if own_context else context_mask)  # (b, m)
        strides = self._query_strides
        if strides > 1:
            context, axes = (inputs if own_context else context), range(1, len(grid) + 1)
            inputs = every(inputs, strides, axes)
            mask = None if mask is None else every(mask, strides, axes)
        mask = _flatten_mask(mask)  # (b, n)
        if attention_mask is not None:
            attention_mask = ops.cast(attention_mask, "bool")
        common = (padding, attention_mask, grid, context_grid, training, strides, relations)
        outputs = [
            self.apply_lambdas(group, *common)
            for group in self.project_inputs(
                inputs, context, position_embeddings, mask, padding, training
            )
        ]
        outputs = outputs[0] if self._groups == 1 else ops.concatenate(outputs, axis=2)
        grid = strided(grid, strides)
        outputs = ops.reshape(outputs, (batch, *grid, self.filters))  # (b, n, h, v) to a map
        if self.strides > strides:
            outputs = average_pool(outputs, 3, self.strides)
        return outputs

    def project_inputs(
        self, inputs, context=None, position_embeddings=None, mask=None, padding=None, training=None
    ):
        """Projects and splits queries, keys, values and embeddings by head group.

        Masks `(b, n)` of queries and `(b, m)` of the context, `padding`, are false where an example
        has none. There is one `Group`, or with `multi_query=False` one per head.
        """
        batch, groups = ops.shape(inputs)[0], self._groups
        kernels = [self.query_kernel, self.value_kernel]
        kernels += [] if self.key_kernel is None else [self.key_kernel]
        if context is None:
            queries, values, *keys = project(inputs, kernels)  # (b, n, h k), (b, m, v u), ...
        else:
            (queries,) = project(inputs, kernels[:1])  # (b, n, h k)
            values, *keys = project(context, kernels[1:])  # (b, m, v u), (b, m, k u)
        if self.query_bias is not None and self.value_bias is not None:
            queries = queries + ops.cast(self.query_bias, queries.dtype)
            values = values + ops.cast(self.value_bias, values.dtype)
        if self.query_batch_norm is not None:
            queries = self.query_batch_norm(queries, training=training, mask=mask)
        if self.value_batch_norm is not None:
            values = self.value_batch_norm(values, training=training, mask=padding)
        if padding is not None:
            values = ops.where(padding[:, :, None], values, ops.zeros_like(values))

        # Multi-head: every head is a lambda layer of its own, with one query (Figure 7).
        def split(tensor, *shape):
            return ops.unstack(ops.reshape(tensor, (batch, -1, groups, *shape)), groups, axis=2)

        queries = split(queries, self.num_heads // groups, self.key_dim)  # (b, n, h, k)
        if self.query_normalization in ("softmax", "batch_softmax"):
            queries = [ops.cast(ops.softmax(ops.cast(q, "float32")), q.dtype) for q in queries]
        values = split(values, self._value_dim, self.intra_depth)  # (b, m, v, u)
        if keys:
            keys = split(keys[0], self.key_dim, self.intra_depth)  # (b, m, k, u)
        embeddings, bias = position_embeddings, self.position_bias
        if self.position_embeddings is not None:
            embeddings = ops.convert_to_tensor(self.position_embeddings)  # (*r, u, k)
        if bias is not None:
            bias = ops.cast(ops.convert_to_tensor(bias), values[0].dtype)  # (k,)

        def per_group(table):
            if table is None or self.multi_query:
                return [table] * groups
            return ops.unstack(table, groups)

        parts = (queries, keys or [None] * groups, values, per_group(embeddings), per_group(bias))
        return list(map(Group, *parts))

    def apply_lambdas(
        self, group: Group, padding, mask, grid, context_grid, training, strides=1, relations=None
    ):
        """Applies the content and position lambdas of one head group; returns `(b, n, h, v)`.

        Masks `(b, m)` (`padding`) and `(n, m)` or `(b, n, m)` are false where there is no context
        element, and where a query does not see it. Grids are the axes that n, before strides, and m
        are made of.
        """
        queries, keys, values, embeddings, bias = group
        outputs = 0
        if keys is not None:
            queried = _raster(grid, strides) if self.causal and strides > 1 else None
            outputs = content_outputs(
                queries, keys, values, self.key_normalization, padding, mask, self.causal, queried
            )  # (b, n, h, v)
        if embeddings is not None:
            embeddings = ops.cast(embeddings, values.dtype)
            outputs = outputs + self._position_outputs(
                queries, values, embeddings, mask, grid, context_grid, training, strides, relations
            )  # (b, n, h, v)
        if bias is not None:
            outputs = outputs + ops.matmul(queries, bias[:, None])  # (b, n, h, 1), for every v
        return outputs

    def _position_outputs(
        self, queries, values, embeddings, mask, grid, context_grid, training, strides, relations
    ):
        of_pairs = self.position_embedding in OF_PAIRS
        if not of_pairs:
            embeddings = position_lambdas.dilate(embeddings, self.dilation_rate)
            if self.causal:
                embeddings = position_lambdas.mask_future(embeddings)  # (*r, u, k)
        elif self.causal:
            past = up_to_own(_raster(grid, strides), math.prod(grid), math.prod(context_grid))
            mask = past if mask is None else ops.logical_and(mask, past)
        any_pairs = of_pairs or mask is not None
        implementation = self.implementation
        if implementation == "auto":
            implementation = position_lambdas.fastest(
                position_lambdas.known_common_grid(grid, context_grid),
                None if any_pairs else embeddings.shape[:-2],
                self._value_dim,
                bool(training),
                values.shape[0],
                strides,
                causal=self.causal,
                intra_depth=self.intra_depth,
                own_pairs=_of_examples(mask, relations),
            )
        if not any_pairs:
            return position_lambdas.relative_outputs(
                queries, values, embeddings, grid, context_grid, implementation, strides
            )
        if not of_pairs:
            embeddings = position_lambdas.dense_embeddings(
                embeddings, grid, context_grid, strides=strides
            )
        elif strides > 1 and self.position_embedding == "absolute":
            table = every(ops.reshape(embeddings, (*grid, -1)), strides, range(len(grid)))
            embeddings = ops.reshape(table, (-1, *embeddings.shape[1:]))  # (n, m, u, k)
        return position_lambdas.pair_outputs(
            queries, values, embeddings, implementation, mask, relations
        )

    def compute_output_shape(self, inputs_shape, context_shape=None):
        del context_shape
        grid = strided(inputs_shape[1:-1], self.strides)
        return (inputs_shape[0], *grid, self.filters)

    def compute_mask(self, inputs, previous_mask):
        del inputs
        if self.strides == 1 or previous_mask is None:
            return previous_mask
        axes = range(1, len(previous_mask.shape))
        return every(previous_mask, self.strides, axes) if self.strided_queries else None

    def count_flops(self, inputs_shape, context_shape=None) -> dict[str, int]:
        """Floating-point operations for one example, by part.

        The keys' projection counts without content lambdas too, as in Table 10.
        """
        context_shape = inputs_shape if context_shape is None else context_shape
        (_, *grid, depth), (_, *context_grid, context_depth) = inputs_shape, context_shape
        n, m = math.prod(strided(grid, self._query_strides)), math.prod(context_grid)
        h, k, v = self.num_heads, self.key_dim, self._value_dim
        units = (1 if self.multi_query else h) * self.intra_depth
        embedded = self.count_map_elements(inputs_shape, context_shape)
        applying = n * h * k * v
        products = {
            PROJECTIONS: n * depth * h * k + m * context_depth * units * (k + v),
            CONTENT: (m * units * k * v + applying) * self.use_content,
            POSITION: (embedded * v + applying) * (self.position_embedding is not None),
        }
        return {part: 2 * number for part, number in products.items()}

    def count_map_elements(self, inputs_shape, context_shape=None) -> int:
        """Elements of the embeddings of all pairs of positions `(n, m, k, u)`, for any batch (3.2).

        A query has as many context positions as the scope, at most all, as in `count_flops`.
        """
        if self.position_embedding is None:
            return 0
        context_shape = inputs_shape if context_shape is None else context_shape
        grid, seen = tuple(inputs_shape[1:-1]), math.prod(context_shape[1:-1])
        if self.position_embedding not in OF_PAIRS and self.scope is not None:
            seen = min(seen, math.prod(relative_positions(self.scope, grid)))
        tables = 1 if self.multi_query else self.num_heads
        queries = math.prod(strided(grid, self._query_strides))
        return queries * seen * self.key_dim * self.intra_depth * tables

    @property
    def _query_strides(self):
        return self.strides if self.strided_queries else 1

    @property
    def _value_dim(self):
        return self.filters // self.num_heads

    def _add_bias(self, name, units):
        return self.add_weight(shape=(units,), initializer="zeros", name=name)

    def _add_kernel(self, of, depth, units):
        return self.add_weight(
            shape=(depth, units),
            initializer=getattr(self, f"{of}_initializer"),
            regularizer=self.kernel_regularizer,
            name=f"{of}_kernel",
        )

    def _embedded_positions(self, grid, context_grid) -> tuple[int, ...] | None:
        """Sizes of the axes of the layer's own position embeddings, `None` if it has none."""
        if self.position_embedding == "relative":
            return relative_positions(self.scope, grid)
        if self.position_embedding == "relation" and self.num_relations is not None:
            return (self.num_relations,)
        if self.position_embedding != "absolute":
            return None
        expected = "grids of known size, because absolute embeddings are one for each pair"
        known = None not in grid + context_grid
        check(known, f"{expected} of positions", grid=grid, context_grid=context_grid)
        return math.prod(grid), math.prod(context_grid)

    def check_shapes(self, inputs_shape, context_shape=None):
        """Refuses shapes of inputs and context that the layer cannot be built for."""
        context_shape = inputs_shape if context_shape is None else context_shape
        rank, depths = len(inputs_shape) - 2, (inputs_shape[-1], context_shape[-1])
        given = {"inputs": tuple(inputs_shape), "context": tuple(context_shape)}
        expected = "inputs (batch, *grid, depth) with a grid of 1 to 3 axes and a known depth"
        check(1 <= rank <= 3 and None not in depths, expected, **given)
        sizes = (*inputs_shape[1:], *context_shape[1:])
        check(0 not in sizes, "a grid and a depth of at least 1", **given)
        check(len(context_shape) == rank + 2, "a context of the rank of the inputs", **given)
        self._check_implementation(f"a grid of {rank} axes", axes=rank)
        if None in (*inputs_shape[1:-1], *context_shape[1:-1]):
            self._check_implementation("a grid of unknown size", unknown_grid=True)
        self._embedded_positions(tuple(inputs_shape[1:-1]), tuple(context_shape[1:-1]))

    def _check_call(self, inputs, context, position_embeddings, attention_mask, relations):
        context_shape = (inputs if context is None else context).shape
        self.check_shapes(inputs.shape, context_shape)
        grids = (tuple(inputs.shape[1:-1]), tuple(context_shape[1:-1]))
        relative = self.position_embedding == "relative"
        axes = len(self.built_grids[0])
        built = f"a grid of {axes} axes, as the position embeddings were built for"
        check(not relative or len(grids[0]) == axes, built, grid=grids[0])
        fixed = self.position_embedding == "absolute" or (relative and self.scope is None)
        built = "grids of inputs and context that the position embeddings were built for"
        check(not fixed or grids == self.built_grids, f"{built}, {self.built_grids}", grids=grids)
        same = "a context on the grid of the inputs, because causal=True"
        check(not self.causal or grids[0] == grids[1], same, grids=grids)
        if self.position_embedding == "shared":
            table = (*relative_positions(self.scope, grids[0]), self.intra_depth, self.key_dim)
            shared = f"position_embeddings of a RelativePositionEmbedding with shape {table}"
            given = None if position_embeddings is None else tuple(position_embeddings.shape)
            check(given == table, f"{shared}, because position_embedding='shared'", shape=given)
        else:
            unshared = "no position_embeddings in the call unless position_embedding='shared'"
            own = self.position_embedding
            check(position_embeddings is None, unshared, position_embedding=own)
        # (queries, context positions), shared by the batch or of each example's own.
        of_queries = (strided(grids[0], self._query_strides), grids[1])
        pairs = tuple(None if None in grid else math.prod(grid) for grid in of_queries)
        shapes = (pairs, (inputs.shape[0], *pairs))
        if self.position_embedding == "relation":
            check_integers("relations", relations, *shapes)
        else:
            expected = "no relations in the call unless position_embedding='relation'"
            check(relations is None, expected, position_embedding=self.position_embedding)
        if attention_mask is not None:
            check_mask("attention_mask", attention_mask, *shapes)
            self._check_implementation("an attention_mask", any_pairs=True)
        if _of_examples(attention_mask, relations):
            self._check_implementation("masks or relations of each example", own_pairs=True)

    def _check_batch(self, inputs, context, mask, context_mask):
        depths = (inputs.shape[-1], (inputs if context is None else context).shape[-1])
        built = (self.query_kernel.shape[0], self.value_kernel.shape[0])
        expected = f"the depths of inputs and context that the layer was built for, {built}"
        check(depths == built, expected, depths=depths)
        if mask is not None:
            check_mask("mask", mask, inputs.shape[:-1])
        if context is None:
            check(context_mask is None, "a context for the context_mask", context=None)
            return
        batches = (inputs.shape[0], context.shape[0])
        equal = None in batches or batches[0] == batches[1]
        check(equal, "a context of as many examples as the inputs", examples=batches)
        if context_mask is not None:
            check_mask("context_mask", context_mask, context.shape[:-1])


def _raster(grid, strides):
    """Numbers in raster order of the positions with queries: int `(n,)`."""
    positions = ops.reshape(ops.arange(math.prod(grid), dtype="int32"), grid)
    return ops.reshape(every(positions, strides, range(len(grid))), (-1,))


def _of_examples(*pairs) -> bool:
    """Whether a mask or relations of pairs are of each example's own, `(b, n, m)`."""
    return any(one is not None and len(one.shape) == 3 for one in pairs)


def _flatten_mask(mask):
    """`(b, *grid)` -> bool `(b, n)`."""
    if mask is None:
        return None
    return ops.cast(ops.reshape(mask, (ops.shape(mask)[0], -1)), "bool")
