"""Relative position embeddings that several lambda layers share (Table 4 of LambdaNetworks)."""

import keras
from keras import initializers

from lambda_keras.layers.arguments import check
from lambda_keras.layers.base import Layer


def relative_positions(scope: int | tuple[int, ...] | None, grid: tuple) -> tuple[int, ...]:
    """Numbers of relative positions along the axes of a grid: the scope, or all offsets."""
    is_grid = 1 <= len(grid) <= 3 and 0 not in grid
    check(is_grid, "a grid of 1 to 3 axes, of sizes of at least 1", grid=grid)
    if scope is None:
        known = "a grid of known size, because scope=None has one embedding for every offset in it"
        check(None not in grid, known, grid=grid)
        return tuple(2 * size - 1 for size in grid)
    if isinstance(scope, int):
        return (scope,) * len(grid)
    expected = f"one scope for each of the {len(grid)} axes of the grid"
    check(len(scope) == len(grid), expected, scope=scope)
    return scope


def standardize_scope(scope):
    """Checks a scope, and turns a list (from a config) into a tuple."""
    if scope is None:
        return None
    sizes = tuple(scope) if isinstance(scope, (tuple, list)) else (scope,)
    are_odd = sizes and all(type(size) is int and size > 0 and size % 2 for size in sizes)
    check(are_odd, "scope to be None or positive odd integers, which have a center", scope=scope)
    return scope if isinstance(scope, int) else sizes


def unit_normal(initializer):
    """The initializer of position embeddings: N(0, 1) unless another is given (E.1)."""
    return initializers.get(initializer or initializers.RandomNormal(stddev=1.0))


@keras.saving.register_keras_serializable(package="lambda_keras")
class RelativePositionEmbedding(Layer):
    """Relative position embeddings for several lambda layers (Table 4 of LambdaNetworks).

    The table is counted and saved once. All layers that use it must agree in `key_dim`,
    `intra_depth` and `scope`, and be multi-query.

    Args:
        scope: Odd int, tuple of odd ints, or `None` for every offset of the grid of the inputs.
            Defaults to `23`.
        key_dim: Int, query and key depth k. Defaults to `16`.
        intra_depth: Int, intra-depth u. Defaults to `1`.
        embeddings_initializer: Initializer of the table. Defaults to `N(0, 1)` (E.1).
        embeddings_regularizer: Regularizer of the table. Defaults to `None`.
        **kwargs: `name`, `dtype` and other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, *grid, depth)`; only its shape is used.

    Returns:
        Tensor `(*relative positions, intra_depth, key_dim)`, the `position_embeddings` that
        `LambdaLayer(..., position_embedding="shared")` is called with.

    Raises:
        ValueError: If an argument is out of its range, or `scope=None` and the grid is unknown.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import LambdaLayer, RelativePositionEmbedding
    >>> inputs = keras.Input((14, 14, 32))
    >>> table = RelativePositionEmbedding(scope=7)(inputs)
    >>> x = LambdaLayer(32, scope=7, position_embedding="shared")(inputs, position_embeddings=table)
    >>> x = LambdaLayer(32, scope=7, position_embedding="shared")(x, position_embeddings=table)
    >>> x.shape
    (None, 14, 14, 32)
    """

    def __init__(
        self,
        *,
        scope: int | tuple[int, ...] | None = 23,
        key_dim: int = 16,
        intra_depth: int = 1,
        embeddings_initializer=None,
        embeddings_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        scope = standardize_scope(scope)
        self.keep(locals())
        self.embeddings_initializer = unit_normal(self.embeddings_initializer)

    def build(self, input_shape):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=self.compute_output_shape(input_shape),
            initializer=self.embeddings_initializer,
            regularizer=self.embeddings_regularizer,
        )

    def call(self, inputs):
        del inputs
        return keras.ops.convert_to_tensor(self.embeddings)

    def compute_output_shape(self, input_shape):
        positions = relative_positions(self.scope, tuple(input_shape[1:-1]))
        return (*positions, self.intra_depth, self.key_dim)

    def count_flops(self, inputs_shape):
        """Floating-point operations for one example: none."""
        del inputs_shape
        return {}
