"""The lambda layer (Bello, ICLR 2021, arXiv:2102.08602)."""

import math
from typing import Any, ClassVar, Literal, NamedTuple

import keras
from keras import ops

from lambda_keras.layers import position_lambdas
from lambda_keras.layers.arguments import EPSILON, MOMENTUM, check, one_of
from lambda_keras.layers.base import CONTENT, POSITION, PROJECTIONS, Layer, fan_in, project
from lambda_keras.layers.batch_normalization import inner_batch_norm
from lambda_keras.layers.content_lambdas import content_lambdas
from lambda_keras.layers.contraction import contract
from lambda_keras.layers.lambda_call import check_pairs, check_tensors
from lambda_keras.layers.pooling import average_pool
from lambda_keras.layers.position_embeddings import standardize_scope, unit_normal
from lambda_keras.layers.positions import KINDS, Pairs
from lambda_keras.layers.tiles import every, strided

PositionKind = Literal["relative", "absolute", "relation", "shared", None]


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

    (Eq. 1 and 2) with queries q, keys K, values V and position embeddings E. The softmax is over
    the context positions. Several queries (heads) per position share a lambda (multi-query, Figures
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
        strides: Int, strides of the 3-wide average pooling after the layer, in place of a strided
            convolution (E.1). Causal layers cannot have this pooling. Defaults to `1`.
        strided_queries: Bool, whether the queries are strided and nothing is pooled (3.4): only the
            first of every `strides` positions of an axis has queries. The context
            stays the whole grid. In inference, outputs equal `strides=1` at these positions;
            batch statistics count only the queries that are computed. Defaults to `False`.
        dilation_rate: Int, distance between the positions in the scope (3.4). Defaults to `1`.
        multi_query: Bool; `False` gives each head its own keys, values and embeddings (multi-head,
            Figure 7). Defaults to `True`.
        use_content: Bool, whether there is a content lambda (Table 10). Defaults to `True`.
        position_embedding: `"relative"`; `"absolute"`, one embedding for each pair of positions;
            `"relation"`, one for each of `num_relations` kinds of pairs, the `relations` of the
            call, such as edges of graphs, distances or time lags (2, 3.3); `"shared"`, relative
            ones of a `RelativePositionEmbedding` passed to the call (Table 4); or `None` for no
            position lambdas (Table 10). Only relative ones use the scope. Defaults to `"relative"`.
        num_relations: Int, number r of relations, for `position_embedding="relation"` only.
            Defaults to `None`.
        use_bias: Bool, whether all position lambdas have a learned bias of depth k, as in
            PyTorch implementations. Defaults to `False`.
        use_projection_bias: Bool, whether queries and values have a learned bias, before
            normalizations. `fold_batch_normalization` needs it. Defaults to `False`.
        causal: Bool, whether a query sees only the context positions up to its own, in raster
            order (B.2). Later positions change neither outputs nor gradients, as long as they are
            finite: they are multiplied by 0. In training, batch statistics still count all
            positions. Defaults to `False`.
        query_normalization: `"batch"`, `"softmax"` (over k), `"batch_softmax"` (both, in
            this order) or `None` (Table 12). Defaults to `"batch"`.
        key_normalization: `"softmax"`, `"l2"` or `None`, over the context positions (Table 12).
            Defaults to `"softmax"`.
        value_normalization: `"batch"` or `None` (Table 12). Defaults to `"batch"`.
        implementation: How position lambdas are computed, `"einsum"`, `"query_first"`,
            `"dense_matmul"`, `"conv"`, `"depthwise_conv"`, `"toeplitz_conv"` or `"fourier"`;
            results differ by rounding only. `position_lambdas.IMPLEMENTATIONS` has the limits of
            each. `"auto"` takes the fastest on the kind of device. Defaults to `"auto"`.
        momentum: Float from 0 to 1, momentum of the batch normalizations. Defaults to `0.99`.
        epsilon: Positive float, epsilon of the batch normalizations. Defaults to `1e-5`.
        query_initializer: Initializer of the query projection. Defaults to `N(0, (k d)^-1/2)`, mean
            and standard deviation (E.1).
        key_initializer: Initializer of the key projection. Defaults to `N(0, d^-1/2)` (E.1).
        value_initializer: Initializer of the value projection. Defaults to `N(0, d^-1/2)` (E.1).
        embeddings_initializer: Initializer of the position embeddings. Defaults to `N(0, 1)` (E.1).
            In training, outputs of a new layer then have a standard deviation of
            `sqrt(key_dim * intra_depth * positions in the scope)`, less at borders, such as 26 with
            `scope=7` on 28x28 positions. In the networks a normalization follows. In a standalone
            layer it is about 1 with
            `keras.initializers.VarianceScaling(1 / intra_depth, "fan_out", "untruncated_normal")`.
        kernel_regularizer: Regularizer of the three projections. Defaults to `None`.
        embeddings_regularizer: Regularizer of the position embeddings. Defaults to `None`.
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
            positions each query sees (Figure 6); the others must be finite. n counts the queries
            that are computed. Keys are normalized over visible positions only. A softmax subtracts
            the maximum of all positions, hidden ones too: keys more than about 80 below it have
            weight 0. With `causal=True` it subtracts each query's own, in `n m k u` numbers of
            memory per example; otherwise content lambdas take `n k v u` numbers, and position
            lambdas `n m u h` with masks `(batch, n, m)`.
        relations: Integers `(n, m)`, shared by the batch, or `(batch, n, m)`, if
            `position_embedding="relation"`: the relation of each query to each context position,
            from 0. Pairs with a number out of range, such as -1, have none, and no position lambda.
            Shared relations take `n m (r + u k)` numbers, others `n m (r + u h)` per example.
        mask: Bool tensor `(batch, *grid)`, Keras' padding mask of `inputs`: false positions are
            neither context nor part of the batch statistics.
        context_mask: Bool tensor `(batch, *context grid)`, the same for `context`.
        inputs_mask: Alias of `mask`, under which Keras passes it if the call has other tensors.
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

    Reference:
        LambdaNetworks (Bello, ICLR 2021, arXiv:2102.08602), whose equations, tables and sections
        the parentheses name.
    """

    constraints: ClassVar = {
        "implementation": one_of("implementation", ("auto", *position_lambdas.IMPLEMENTATIONS)),
        "momentum": MOMENTUM,
        "epsilon": EPSILON,
    }

    def __init__(
        self,
        filters: int,
        *,
        num_heads: int = 4,
        key_dim: int = 16,
        intra_depth: int = 1,
        scope: int | tuple[int, ...] | None = 23,
        strides: int = 1,
        strided_queries: bool = False,
        dilation_rate: int = 1,
        multi_query: bool = True,
        use_content: bool = True,
        position_embedding: PositionKind = "relative",
        num_relations: int | None = None,
        use_bias: bool = False,
        use_projection_bias: bool = False,
        causal: bool = False,
        query_normalization: Literal["batch", "softmax", "batch_softmax", None] = "batch",
        key_normalization: Literal["softmax", "l2", None] = "softmax",
        value_normalization: Literal["batch", None] = "batch",
        implementation: str = "auto",
        momentum: float = 0.99,
        epsilon: float = 1e-5,
        query_initializer=None,
        key_initializer=None,
        value_initializer=None,
        embeddings_initializer=None,
        kernel_regularizer=None,
        embeddings_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        scope = standardize_scope(scope)
        self.keep(locals())
        positions, kind = position_embedding is not None, "position_embedding"
        self.require(
            filters % num_heads == 0, "filters divisible by num_heads", "filters", "num_heads"
        )
        expected = "a content lambda or position lambdas"
        self.require(use_content or positions, expected, "use_content", kind)
        expected = "position lambdas for use_bias=True, which is their bias"
        self.require(positions or not use_bias, expected, kind)
        fits = (position_embedding == "relation") == (num_relations is not None)
        expected = "num_relations, a positive integer, for position_embedding='relation' only"
        self.require(fits, expected, "num_relations", kind)
        fits = multi_query or position_embedding != "shared"
        self.require(fits, "multi_query=True for shared embeddings", "multi_query")
        fits = not causal or strides == 1 or strided_queries
        expected = "strides=1 for causal=True, or strided_queries=True, as pooling sees the future"
        self.require(fits, expected, "strides", "strided_queries")
        self.query_initializer = self.query_initializer or fan_in(1 / key_dim)
        self.key_initializer = self.key_initializer or fan_in()
        self.value_initializer = self.value_initializer or fan_in()
        self.embeddings_initializer = unit_normal(self.embeddings_initializer)
        self.value_dim = filters // num_heads
        # Multi-head: every head is a lambda layer of its own, with one query (Figure 7).
        self.groups = 1 if multi_query else num_heads
        self.query_strides = strides if strided_queries else 1
        self.positions: Any = KINDS[position_embedding](self) if positions else None
        any_pairs = positions and self.positions.any_pairs
        self.check_capable(f"{position_embedding} embeddings", any_pairs=any_pairs)
        self.check_capable(f"causal={causal}", causal=causal)
        self.check_capable(f"intra_depth={intra_depth}", intra_depth=intra_depth)
        self.supports_masking = True

    def build(self, inputs_shape, context_shape=None):
        context_shape = inputs_shape if context_shape is None else context_shape
        self.check_shapes(inputs_shape, context_shape)
        grid, context_grid = tuple(inputs_shape[1:-1]), tuple(context_shape[1:-1])
        self.built_grids = (grid, context_grid)
        tables = () if self.multi_query else (self.groups,)
        positions = None if self.positions is None else self.positions.table(grid, context_grid)
        self.position_embeddings = self.position_bias = self.key_kernel = None
        self.query_bias = self.value_bias = None
        self.query_batch_norm = self.value_batch_norm = None
        if positions is not None:
            self.position_embeddings = self.add_weight(
                name="position_embeddings",
                shape=(*tables, *positions, self.intra_depth, self.key_dim),
                initializer=self.embeddings_initializer,
                regularizer=self.embeddings_regularizer,
            )
        if self.use_bias:
            self.position_bias = self._add_bias("position_bias", *tables, self.key_dim)
        units = self.groups * self.intra_depth
        query_units, value_units = self.num_heads * self.key_dim, units * self.value_dim
        depth, context_depth = inputs_shape[-1], context_shape[-1]
        self.query_kernel = self._add_kernel("query", depth, query_units)
        self.value_kernel = self._add_kernel("value", context_depth, value_units)
        if self.use_content:
            self.key_kernel = self._add_kernel("key", context_depth, units * self.key_dim)
        if self.use_projection_bias:
            self.query_bias = self._add_bias("query_bias", query_units)
            self.value_bias = self._add_bias("value_bias", value_units)
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
        inputs_mask=None,
        training=None,
    ):
        # Keras passes the mask by this name if the call has other tensors.
        mask = inputs_mask if mask is None else mask
        own_context = context is None
        check_tensors(self, inputs, context, mask, context_mask)
        check_pairs(self, inputs, context, position_embeddings, attention_mask, relations)
        if inputs.shape[0] == 0:  # Empty batches crash some backends.
            return ops.zeros(self.compute_output_shape(inputs.shape), self.compute_dtype)
        batch, *grid, _ = ops.shape(inputs)
        context_grid = grid if own_context else ops.shape(context)[1:-1]
        padding = _flatten_mask(mask if own_context else context_mask)  # (b, m)
        strides, axes = self.query_strides, range(1, len(grid) + 1)
        if strides > 1:
            context = inputs if own_context else context
            inputs = every(inputs, strides, axes)
            mask = None if mask is None else every(mask, strides, axes)
        if attention_mask is not None:
            attention_mask = ops.cast(attention_mask, "bool")
        pairs = Pairs(grid, context_grid, strides, padding, attention_mask, relations, training)
        groups = self.project_inputs(
            inputs, context, position_embeddings, _flatten_mask(mask), padding, training
        )
        outputs = [self.apply_lambdas(group, pairs) for group in groups]  # (b, n, h, v)
        outputs = outputs[0] if self.groups == 1 else ops.concatenate(outputs, axis=2)
        outputs = ops.reshape(outputs, (batch, *strided(grid, strides), self.filters))
        return average_pool(outputs, 3, self.strides) if self.strides > strides else outputs

    def apply_lambdas(self, group: Group, pairs: Pairs):
        """Applies the content and position lambdas of a head group (Figure 3): `(b, n, h, v)`."""
        # b batch, n queries, m context, h heads, k query/key depth, u intra-depth, v value depth
        queries, keys, values, embeddings, bias = group
        outputs = 0
        if keys is not None:  # content lambda: softmax(K)^T V
            queried = pairs.queried() if self.causal and pairs.strides > 1 else None
            how = (self.key_normalization, pairs.padding, pairs.mask, self.causal, queried)
            axes, content_lambda = content_lambdas(keys, values, *how)  # bkv, or one per query
            content_lambda = ops.cast(content_lambda, queries.dtype)
            outputs = contract(f"bnhk,{axes}->bnhv", queries, content_lambda)
        if embeddings is not None:  # position lambdas: E_n^T V, in the order of the implementation
            embeddings = ops.cast(embeddings, values.dtype)
            outputs = outputs + self.positions.outputs(queries, values, embeddings, pairs)
        if bias is not None:  # added to every position lambda, for every v
            outputs = outputs + ops.matmul(queries, bias[:, None])
        return outputs

    def project_inputs(
        self, inputs, context=None, position_embeddings=None, mask=None, padding=None, training=None
    ) -> list[Group]:
        """Projects and splits queries, keys, values and embeddings by head group.

        `mask` `(b, n)` of the queries and `padding` `(b, m)` of the context are false at padding.
        There is one `Group`, or with `multi_query=False` one per head.
        """
        batch, groups = ops.shape(inputs)[0], self.groups
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

        def split(tensor, *shape):
            if groups == 1:  # An unstack would copy the tensor.
                return [ops.reshape(tensor, (batch, -1, *shape))]
            return ops.unstack(ops.reshape(tensor, (batch, -1, groups, *shape)), groups, axis=2)

        queries = split(queries, self.num_heads // groups, self.key_dim)  # (b, n, h, k)
        if self.query_normalization in ("softmax", "batch_softmax"):
            queries = [ops.cast(ops.softmax(ops.cast(q, "float32")), q.dtype) for q in queries]
        values = split(values, self.value_dim, self.intra_depth)  # (b, m, v, u)
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

    def compute_output_shape(self, inputs_shape, context_shape=None):
        del context_shape
        return (inputs_shape[0], *strided(inputs_shape[1:-1], self.strides), self.filters)

    def compute_mask(self, inputs, previous_mask):
        del inputs
        if self.strides == 1 or previous_mask is None:
            return previous_mask
        axes = range(1, len(previous_mask.shape))
        return every(previous_mask, self.strides, axes) if self.strided_queries else None

    def count_flops(self, inputs_shape, context_shape=None) -> dict[str, int]:
        """Floating-point operations for one example, by part.

        The key projection counts even without content lambdas, as in Table 10.
        """
        context_shape = inputs_shape if context_shape is None else context_shape
        (_, *grid, depth), (_, *context_grid, context_depth) = inputs_shape, context_shape
        n, m = math.prod(strided(grid, self.query_strides)), math.prod(context_grid)
        h, k, v = self.num_heads, self.key_dim, self.value_dim
        units = self.groups * self.intra_depth
        embedded = self.count_map_elements(inputs_shape, context_shape)
        applying = n * h * k * v
        products = {
            PROJECTIONS: n * depth * h * k + m * context_depth * units * (k + v),
            CONTENT: (m * units * k * v + applying) * self.use_content,
            POSITION: (embedded * v + applying) * (self.positions is not None),
        }
        return {part: 2 * number for part, number in products.items()}

    def count_map_elements(self, inputs_shape, context_shape=None) -> int:
        """Elements of the dense position embeddings `(n, m, k, u)`, whatever the batch size (3.2).

        A query counts the context positions of the scope, at most all, as in `count_flops`.
        """
        if self.positions is None:
            return 0
        context_shape = inputs_shape if context_shape is None else context_shape
        grid, context_grid = tuple(inputs_shape[1:-1]), tuple(context_shape[1:-1])
        queries = math.prod(strided(grid, self.query_strides))
        seen = self.positions.seen(grid, context_grid)
        return queries * seen * self.key_dim * self.intra_depth * self.groups

    def _add_bias(self, name, *shape):
        return self.add_weight(shape=shape, initializer="zeros", name=name)

    def _add_kernel(self, role, depth, units):
        return self.add_weight(
            shape=(depth, units),
            initializer=getattr(self, f"{role}_initializer"),
            regularizer=self.kernel_regularizer,
            name=f"{role}_kernel",
        )

    def check_capable(self, purpose, **needs):
        """Refuses an implementation that cannot meet needs of `position_lambdas.capable`."""
        capable = position_lambdas.capable(**needs)
        fits = self.positions is None or self.implementation in capable
        expected = f"one of the implementations {capable} for {purpose}"
        check(fits, expected, implementation=self.implementation)

    def check_shapes(self, inputs_shape, context_shape=None):
        """Refuses shapes of inputs and context that the layer cannot be built for."""
        context_shape = inputs_shape if context_shape is None else context_shape
        rank, depths = len(inputs_shape) - 2, (inputs_shape[-1], context_shape[-1])
        given = {"inputs": tuple(inputs_shape), "context": tuple(context_shape)}
        grids = [shape[1:-1] for shape in given.values()]
        expected = "inputs (batch, *grid, depth) with a grid of 1 to 3 axes and a known depth"
        check(1 <= rank <= 3 and None not in depths, expected, **given)
        sizes = (*inputs_shape[1:], *context_shape[1:])
        check(0 not in sizes, "a grid and a depth of at least 1", **given)
        check(len(context_shape) == rank + 2, "a context of the rank of the inputs", **given)
        self.check_capable(f"a grid of {rank} axes", axes=rank)
        self.check_capable("a grid of unknown size", unknown_grid=None in grids[0] + grids[1])
        if self.positions is not None:
            self.positions.table(*grids)


def _flatten_mask(mask):
    """`(b, *grid)` -> bool `(b, n)`."""
    if mask is None:
        return None
    return ops.cast(ops.reshape(mask, (ops.shape(mask)[0], -1)), "bool")
