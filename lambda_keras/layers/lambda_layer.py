"""The lambda layer (Bello, ICLR 2021, arXiv:2102.08602)."""

import keras
from keras import initializers, ops, regularizers

from lambda_keras.layers import position_lambdas
from lambda_keras.layers.content_lambdas import content_outputs

MAX_GRID_RANK = 3


@keras.saving.register_keras_serializable(package="lambda_keras")
class LambdaLayer(keras.layers.Layer):
    """Multi-query lambda layer (Figures 3, 5 and 8).

    A context is turned into a linear function, the lambda, which is applied to each query
    (Eq. 1 and 2):

    `outputs[n] = (content_lambda + position_lambda[n])^T queries[n]`, with
    `content_lambda = softmax(keys)^T values` (softmax over the context positions) and
    `position_lambda[n] = embeddings[n]^T values`.

    Queries and values pass a batch normalization; position embeddings are relative, which makes
    the layer translation equivariant (3.3), and zero outside of the scope (3.4). Weights are
    initialised as in E.1. Softmax and statistics are computed in float32 under any dtype policy.

    Args:
        filters: int, depth d of the outputs, divisible by `num_heads`; the value depth is
            v = d / h.
        num_heads: int, number h of queries per position. Defaults to `4`.
        key_dim: int, query and key depth k. Defaults to `16`.
        intra_depth: int, intra-depth u of keys, values and embeddings (B.4). Defaults to `1`.
        scope: odd int or tuple of odd ints, one for each axis of the grid: the neighbourhood that
            position lambdas see (3.4); or `None` for the whole context, with embeddings for
            every offset of the grid that the layer is built for. Defaults to `23`.
        use_content: bool, whether there is a content lambda (Table 10). Defaults to `True`.
        use_position: bool, whether there are position lambdas (Table 10). Defaults to `True`.
        implementation: how position lambdas are computed: `"einsum"`, `"conv"`,
            `"depthwise_conv"` (Figure 5), or `"auto"`, which takes the faster one for the
            size of the grid. Results differ by rounding only. Defaults to `"auto"`.
        momentum: float, of the moving statistics of both batch normalizations.
            Defaults to `0.99`.
        epsilon: float, of both batch normalizations. Defaults to `1e-5`.
        query_initializer: initializer of the query projection.
            Defaults to `N(0, (k d)^-1/2)` (E.1).
        key_initializer: initializer of the key projection. Defaults to `N(0, d^-1/2)` (E.1).
        value_initializer: initializer of the value projection. Defaults to `N(0, d^-1/2)` (E.1).
        embeddings_initializer: initializer of the position embeddings.
            Defaults to `N(0, 1)` (E.1).
        kernel_regularizer: regularizer of the three projections. Defaults to `None`.
        embeddings_regularizer: regularizer of the position embeddings. Defaults to `None`.
        **kwargs: `name`, `dtype` and other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: tensor of shape `(batch, *grid, depth)` with a grid of one, two or three axes,
            channels last. The sizes of the grid may be unknown when the scope is local.
        training: bool, whether the batch normalizations use the statistics of the batch.

    Returns:
        Tensor of shape `(batch, *grid, filters)`.

    Raises:
        ValueError: if an argument is out of its range, `filters` is not divisible by
            `num_heads`, a scope is even or does not fit the rank of the inputs, or the grid of a
            global layer is unknown or changes.

    Example:

    >>> layer = LambdaLayer(64, scope=7)
    >>> layer(np.ones((2, 14, 10, 32))).shape
    (2, 14, 10, 64)
    """

    def __init__(
        self,
        filters: int,
        num_heads: int = 4,
        key_dim: int = 16,
        intra_depth: int = 1,
        scope: int | tuple[int, ...] | None = 23,
        use_content: bool = True,
        use_position: bool = True,
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
        for name, value in [
            ("filters", filters),
            ("num_heads", num_heads),
            ("key_dim", key_dim),
            ("intra_depth", intra_depth),
        ]:
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"expected a positive integer. Received: {name}={value!r}")
        if filters % num_heads:
            raise ValueError(
                "expected filters to be divisible by num_heads. "
                f"Received: filters={filters}, num_heads={num_heads}"
            )
        if not (use_content or use_position):
            raise ValueError(
                "expected at least one of content and position lambdas. "
                "Received: use_content=False, use_position=False"
            )
        if implementation not in ("auto", *position_lambdas.IMPLEMENTATIONS):
            raise ValueError(
                f"expected implementation to be 'auto' or one of "
                f"{sorted(position_lambdas.IMPLEMENTATIONS)}. "
                f"Received: implementation={implementation!r}"
            )
        self.filters = filters
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.intra_depth = intra_depth
        self.scope = _standardize_scope(scope)
        self.use_content = use_content
        self.use_position = use_position
        self.implementation = implementation
        self.momentum = momentum
        self.epsilon = epsilon
        self.query_initializer = initializers.get(query_initializer or _fan_in(1 / key_dim))
        self.key_initializer = initializers.get(key_initializer or _fan_in(1.0))
        self.value_initializer = initializers.get(value_initializer or _fan_in(1.0))
        self.embeddings_initializer = initializers.get(
            embeddings_initializer or initializers.RandomNormal(stddev=1.0)
        )
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.embeddings_regularizer = regularizers.get(embeddings_regularizer)

    def build(self, input_shape):
        *grid, depth = input_shape[1:]
        if not 1 <= len(grid) <= MAX_GRID_RANK or depth is None:
            raise ValueError(
                f"expected inputs of shape (batch, *grid, depth) with a grid of 1 to "
                f"{MAX_GRID_RANK} axes and a known depth. Received: shape {tuple(input_shape)}"
            )
        self._global_grid = None
        if self.use_position:
            self.position_embeddings = self.add_weight(
                name="position_embeddings",
                shape=(*self._relative_positions(grid), self.intra_depth, self.key_dim),
                initializer=self.embeddings_initializer,
                regularizer=self.embeddings_regularizer,
            )
        value_dim = self.filters // self.num_heads
        self.query = self._projection(
            "query", self.num_heads * self.key_dim, self.query_initializer
        )
        self.key = self._projection("key", self.key_dim * self.intra_depth, self.key_initializer)
        self.value = self._projection(
            "value", value_dim * self.intra_depth, self.value_initializer
        )
        for projection in (self.query, self.key, self.value):
            projection.build((None, depth))
        self.query_normalization = self._batch_normalization("query_normalization")
        self.query_normalization.build((None, None, self.query.units))
        self.value_normalization = self._batch_normalization("value_normalization")
        self.value_normalization.build((None, None, self.value.units))

    def call(self, inputs, training=None):
        self._check_grid(inputs.shape[1:-1])
        batch, *grid, depth = ops.shape(inputs)
        positions = ops.reshape(inputs, (batch, -1, depth))
        queries = self.query_normalization(self.query(positions), training=training)
        queries = ops.reshape(queries, (batch, -1, self.num_heads, self.key_dim))
        values = self.value_normalization(self.value(positions), training=training)
        values = ops.reshape(values, (batch, -1, *self._value_shape))

        outputs = 0
        if self.use_content:
            keys = self.key(positions)
            keys = ops.reshape(keys, (batch, -1, self.key_dim, self.intra_depth))
            outputs = content_outputs(queries, keys, values)
        if self.use_position:
            implementation = self.implementation
            if implementation == "auto":
                implementation = position_lambdas.fastest(tuple(inputs.shape[1:-1]))
            outputs = outputs + position_lambdas.IMPLEMENTATIONS[implementation](
                ops.reshape(queries, (batch, *grid, self.num_heads, self.key_dim)),
                ops.reshape(values, (batch, *grid, *self._value_shape)),
                ops.cast(self.position_embeddings, values.dtype),
            )
        return ops.reshape(outputs, (batch, *grid, self.filters))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.filters)

    def get_config(self):
        return {
            **super().get_config(),
            "filters": self.filters,
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "intra_depth": self.intra_depth,
            "scope": self.scope,
            "use_content": self.use_content,
            "use_position": self.use_position,
            "implementation": self.implementation,
            "momentum": self.momentum,
            "epsilon": self.epsilon,
            "query_initializer": initializers.serialize(self.query_initializer),
            "key_initializer": initializers.serialize(self.key_initializer),
            "value_initializer": initializers.serialize(self.value_initializer),
            "embeddings_initializer": initializers.serialize(self.embeddings_initializer),
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "embeddings_regularizer": regularizers.serialize(self.embeddings_regularizer),
        }

    @property
    def _value_shape(self):
        return (self.filters // self.num_heads, self.intra_depth)

    def _projection(self, name, units, initializer):
        return keras.layers.Dense(
            units,
            use_bias=False,
            kernel_initializer=initializer,
            kernel_regularizer=self.kernel_regularizer,
            dtype=self.dtype_policy,
            name=name,
        )

    def _batch_normalization(self, name):
        return keras.layers.BatchNormalization(
            momentum=self.momentum, epsilon=self.epsilon, dtype=self.dtype_policy, name=name
        )

    def _relative_positions(self, grid):
        """Numbers of relative positions along the axes of the grid."""
        if self.scope is None:
            if None in grid:
                raise ValueError(
                    "expected a grid of known size, because scope=None has one embedding for "
                    f"every offset in it. Received: grid {tuple(grid)}"
                )
            self._global_grid = tuple(grid)
            return tuple(2 * size - 1 for size in grid)
        if isinstance(self.scope, int):
            return (self.scope,) * len(grid)
        if len(self.scope) != len(grid):
            raise ValueError(
                f"expected one scope for each of the {len(grid)} axes of the grid. "
                f"Received: scope={self.scope}"
            )
        return self.scope

    def _check_grid(self, grid):
        if self._global_grid is not None and tuple(grid) != self._global_grid:
            raise ValueError(
                f"expected the grid {self._global_grid} that this global lambda layer "
                f"(scope=None) was built for. Received: grid {tuple(grid)}"
            )


def _fan_in(scale):
    """N(0, scale^1/2 fan_in^-1/2): fan-in initialisation (E.1)."""
    return initializers.VarianceScaling(
        scale=scale, mode="fan_in", distribution="untruncated_normal"
    )


def _standardize_scope(scope):
    sizes = (scope,) if isinstance(scope, int) else scope
    if sizes is None:
        return None
    if not all(isinstance(size, int) and size > 0 and size % 2 for size in sizes):
        raise ValueError(
            f"expected scope to be None or positive odd integers, so that it has a centre. "
            f"Received: scope={scope!r}"
        )
    return scope if isinstance(scope, int) else tuple(sizes)
