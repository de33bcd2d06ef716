"""Axial attention with position-sensitive logits and values, Axial-DeepLab (arXiv:2003.07853)."""

from typing import ClassVar

import keras
from keras import ops

from lambda_keras.layers.arguments import EPSILON, MOMENTUM
from lambda_keras.layers.attention.base import (
    MapLayer,
    RelativeAttentionLayer,
    join_heads,
    relative_embeddings,
    softmax,
    split_heads,
)
from lambda_keras.layers.base import CONTENT, POSITION
from lambda_keras.layers.batch_normalization import inner_batch_norm
from lambda_keras.layers.contraction import contract


class RowAttention(RelativeAttentionLayer):
    """The attention of `AxialAttention` within each row of a map; heads share the tables."""

    fixed_grid = True

    def __init__(self, filters: int, *, momentum: float, epsilon: float, **kwargs):
        super().__init__(filters, **kwargs)
        self.keep(locals())

    def tables(self, height, width):
        del height
        offsets = 2 * width - 1
        return {
            "query_embeddings": (offsets, self.key_dim),
            "key_embeddings": (offsets, self.key_dim),
            "value_embeddings": (offsets, self.value_dim),
        }

    def build(self, inputs_shape):
        super().build(inputs_shape)
        batch, height, width, _ = inputs_shape

        def norm_of_map(name, channels):
            return inner_batch_norm(self, name, (batch, height, width, channels))

        self.query_batch_norm = norm_of_map("query_batch_norm", self.num_heads * self.key_dim)
        self.key_batch_norm = norm_of_map("key_batch_norm", self.num_heads * self.key_dim)
        self.value_batch_norm = norm_of_map("value_batch_norm", self.filters)
        self.content_output_batch_norm = norm_of_map("content_output_batch_norm", self.filters)
        self.position_output_batch_norm = norm_of_map("position_output_batch_norm", self.filters)

        def norm_of_logits(name):
            logits = (None, self.num_heads, width, width)
            # The softmax is in float32, so its logits are normalized in float32.
            return inner_batch_norm(self, name, logits, axis=1, dtype="float32")

        self.content_batch_norm = norm_of_logits("content_batch_norm")
        self.query_position_batch_norm = norm_of_logits("query_position_batch_norm")
        self.key_position_batch_norm = norm_of_logits("key_position_batch_norm")

    def attend(self, queries, keys, values, training):
        # r row of an example, h head, o query, p context position, k key depth, v value depth
        _, height, width, _ = ops.shape(queries)

        def split_rows(tensor, batch_norm):
            """`(b, height, width, h k)` -> `(r, h, o, k)`, normalized."""
            tensor = batch_norm(tensor, training=training)
            return split_heads(
                ops.reshape(tensor, (-1, 1, width, tensor.shape[-1])), self.num_heads
            )

        queries = split_rows(queries, self.query_batch_norm)
        keys = split_rows(keys, self.key_batch_norm)
        values = split_rows(values, self.value_batch_norm)
        to_query, to_key, to_value = (
            relative_embeddings(table, width, width, width - 1)
            for table in (self.query_embeddings, self.key_embeddings, self.value_embeddings)
        )
        content = contract("rhok,rhpk->rhop", queries, keys)  # (r, h, o, p)
        query_position = contract("rhok,opk->rhop", queries, to_query)
        key_position = contract("rhpk,opk->rhop", keys, to_key)
        logits = (
            self.content_batch_norm(content, training=training)
            + self.query_position_batch_norm(query_position, training=training)
            + self.key_position_batch_norm(key_position, training=training)
        )
        weights = ops.cast(softmax(logits), values.dtype)

        def join_rows(outputs, batch_norm):
            """`(r, h, o, v)` -> `(b, height, width, h v)`, normalized."""
            outputs = ops.reshape(join_heads(outputs, 1, width), (-1, height, width, self.filters))
            return batch_norm(outputs, training=training)

        return join_rows(
            contract("rhop,rhpv->rhov", weights, values), self.content_output_batch_norm
        ) + join_rows(
            contract("rhop,opv->rhov", weights, to_value), self.position_output_batch_norm
        )

    def pairs(self, height, width):
        return height * width, width

    def attention_products(self, height, width):
        pairs, units = height * width**2, self.num_heads * self.key_dim
        return {
            CONTENT: pairs * (units + self.filters),
            POSITION: pairs * (2 * units + self.filters),
        }


@keras.saving.register_keras_serializable(package="lambda_keras")
class AxialAttention(MapLayer):
    r"""Position-sensitive attention along the height, then along the width of the map.

    Along each axis, attention A weighs values and embeddings r of relative positions:

    .. math::

        A_{op} = \operatorname{softmax}_p(\operatorname{BN}(q_o \cdot k_p)
        + \operatorname{BN}(q_o \cdot r^q_{p-o}) + \operatorname{BN}(k_p \cdot r^k_{p-o}))

    .. math::

        y_o = \operatorname{BN}(\sum_p A_{op} v_p) + \operatorname{BN}(\sum_p A_{op} r^v_{p-o})

    (Wang et al., 2020, Eq. 3 and 4; the batch normalizations are in its code). The
    attention along the width projects the outputs along the height anew, with nothing in between;
    the pooling comes after both. Queries, keys and values are batch-normalized, too. Logits are not
    scaled.

    Args:
        filters: Int, depth of the outputs of both axes, divisible by `num_heads`.
        num_heads: Int, number of heads. Defaults to `8`.
        key_dim: Int, query and key depth of a head. Defaults to half of `filters / num_heads`,
            rounded down.
        strides: Int, strides of the 3-wide average pooling after both axes. Defaults to `1`.
        output_projection: Bool, whether the outputs pass one more 1x1 projection, without a bias.
            Defaults to `False`.
        momentum: Float from 0 to 1, momentum of the batch normalizations. Defaults to `0.99`.
        epsilon: Positive float, epsilon of the batch normalizations. Defaults to `1e-5`.
        kernel_initializer: Initializer of all projections. Defaults to `N(0, d^-1/2)`, d the input
            depth of the projection.
        kernel_regularizer: Regularizer of all projections. Defaults to `None`.
        embeddings_initializer: Initializer of the position embeddings. Defaults to
            `N(0, e^-1/2)`, `e = filters / num_heads`.
        embeddings_regularizer: Regularizer of the position embeddings. Defaults to `None`.
        **kwargs: `name`, `dtype` and other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, height, width, depth)` of known height and width.

    Returns:
        Tensor `(batch, height / strides, width / strides, filters)`, sizes rounded up.

    Raises:
        ValueError: If an argument is out of its range, or the map does not have the size that the
            layer was built for.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import AxialAttention
    >>> images = keras.random.normal((2, 14, 10, 32))
    >>> keras.ops.shape(AxialAttention(64, strides=2)(images))
    (2, 7, 5, 64)
    """

    fixed_grid = True
    constraints: ClassVar = {"momentum": MOMENTUM, "epsilon": EPSILON}

    def __init__(
        self,
        filters: int,
        *,
        num_heads: int = 8,
        key_dim: int | None = None,
        strides: int = 1,
        output_projection: bool = False,
        momentum: float = 0.99,
        epsilon: float = 1e-5,
        kernel_initializer=None,
        kernel_regularizer=None,
        embeddings_initializer=None,
        embeddings_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.keep(locals())
        expected = "filters divisible by num_heads"
        self.require(filters % num_heads == 0, expected, "filters", "num_heads")
        value_dim = filters // num_heads
        normal = keras.initializers.RandomNormal(stddev=value_dim**-0.5)
        self.embeddings_initializer = self.embeddings_initializer or normal
        self.key_dim: int = max(value_dim // 2, 1) if key_dim is None else key_dim
        row_arguments = {
            "num_heads": num_heads,
            "key_dim": self.key_dim,
            "momentum": momentum,
            "epsilon": epsilon,
            "kernel_initializer": self.kernel_initializer,
            "kernel_regularizer": self.kernel_regularizer,
            "embeddings_initializer": self.embeddings_initializer,
            "embeddings_regularizer": self.embeddings_regularizer,
            "trainable": self.trainable,
            "dtype": self.dtype_policy,
        }
        # It sees the transposed map, whose rows are columns.
        self.height_attention = RowAttention(filters, **row_arguments, name="height_attention")
        row_arguments |= {"strides": strides, "output_projection": output_projection}
        self.width_attention = RowAttention(filters, **row_arguments, name="width_attention")
        self.kernel_initializer = self.width_attention.kernel_initializer

    def build(self, inputs_shape):
        super().build(inputs_shape)
        batch, height, width, depth = inputs_shape
        self.height_attention.build((batch, width, height, depth))
        self.width_attention.build((batch, height, width, self.filters))

    def outputs(self, inputs, training):
        columns = ops.transpose(inputs, (0, 2, 1, 3))  # (b, width, height, depth)
        columns = self.height_attention(columns, training=training)
        rows = ops.transpose(columns, (0, 2, 1, 3))  # (b, height, width, filters)
        return self.width_attention(rows, training=training)

    def count_flops(self, inputs_shape) -> dict[str, int]:
        batch, height, width, depth = inputs_shape
        columns = self.height_attention.count_flops((batch, width, height, depth))
        rows = self.width_attention.count_flops((batch, height, width, self.filters))
        return {part: columns[part] + rows[part] for part in rows}

    def count_map_elements(self, inputs_shape) -> int:
        batch, height, width, depth = inputs_shape
        columns = self.height_attention.count_map_elements((batch, width, height, depth))
        return columns + self.width_attention.count_map_elements(inputs_shape)
