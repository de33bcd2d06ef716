"""Axial attention with position-sensitive logits and values, Axial-DeepLab (arXiv:2003.07853)."""

import keras
from keras import ops

from lambda_keras.layers.arguments import check_batch_norm
from lambda_keras.layers.attention.base import (
    RelativeAttentionLayer,
    check_call,
    join_heads,
    relative_embeddings,
    softmax,
    split_heads,
)
from lambda_keras.layers.base import CONTENT, POSITION, Layer
from lambda_keras.layers.batch_normalization import inner_batch_norm
from lambda_keras.layers.contraction import contract


class RowAttention(RelativeAttentionLayer):
    r"""Position-sensitive self-attention within each row of a map (Wang et al., 2020, Eq. 4).

    .. math::

        A_{op} = \operatorname{softmax}_p(\operatorname{BN}(q_o \cdot k_p)
        + \operatorname{BN}(q_o \cdot r^q_{p-o}) + \operatorname{BN}(k_p \cdot r^k_{p-o}))

    .. math::

        y_o = \operatorname{BN}(\sum_p A_{op} v_p) + \operatorname{BN}(\sum_p A_{op} r^v_{p-o})

    Queries, keys and values pass a batch normalization, too. There is no scale. The heads share
    the three tables.
    """

    fixed_grid = True
    values_per_key = 2
    embeddings_scale = "value_dim"

    def __init__(self, filters: int, *, momentum: float = 0.99, epsilon: float = 1e-5, **kwargs):
        super().__init__(filters, **kwargs)
        check_batch_norm(momentum, epsilon)
        self.momentum = momentum
        self.epsilon = epsilon

    def build(self, inputs_shape):
        super().build(inputs_shape)
        batch, height, width, _ = inputs_shape
        offsets = 2 * width - 1
        self.query_embeddings = self.add_matrix("query_embeddings", offsets, self.key_dim)
        self.key_embeddings = self.add_matrix("key_embeddings", offsets, self.key_dim)
        self.value_embeddings = self.add_matrix("value_embeddings", offsets, self.value_dim)

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

        def of_rows(tensor, batch_norm):
            """`(b, height, width, h k)` -> `(r, h, o, k)`, normalized."""
            tensor = batch_norm(tensor, training=training)
            return split_heads(
                ops.reshape(tensor, (-1, 1, width, tensor.shape[-1])), self.num_heads
            )

        queries = of_rows(queries, self.query_batch_norm)
        keys = of_rows(keys, self.key_batch_norm)
        values = of_rows(values, self.value_batch_norm)
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

        def of_map(outputs, batch_norm):
            """`(r, h, o, v)` -> `(b, height, width, h v)`, normalized."""
            outputs = ops.reshape(join_heads(outputs, 1, width), (-1, height, width, self.filters))
            return batch_norm(outputs, training=training)

        return of_map(
            contract("rhop,rhpv->rhov", weights, values), self.content_output_batch_norm
        ) + of_map(contract("rhop,opv->rhov", weights, to_value), self.position_output_batch_norm)

    def pairs(self, height, width):
        return height * width, width

    def attention_products(self, height, width):
        pairs, units = height * width**2, self.num_heads * self.key_dim
        return {
            CONTENT: pairs * (units + self.filters),
            POSITION: pairs * (2 * units + self.filters),
        }


@keras.saving.register_keras_serializable(package="lambda_keras")
class AxialAttention(Layer):
    r"""Position-sensitive attention along the height, then along the width of the map.

    Along each axis, attention A weighs values and embeddings r of relative positions:

    .. math::

        A_{op} = \operatorname{softmax}_p(\operatorname{BN}(q_o \cdot k_p)
        + \operatorname{BN}(q_o \cdot r^q_{p-o}) + \operatorname{BN}(k_p \cdot r^k_{p-o}))

    .. math::

        y_o = \operatorname{BN}(\sum_p A_{op} v_p) + \operatorname{BN}(\sum_p A_{op} r^v_{p-o})

    (Wang et al., 2020, Eq. 3 and 4; the batch normalizations are those of its code). The second
    axis projects the outputs of the first anew. Nothing stands between the axes; the pooling comes
    after both.

    Args:
        filters: Int, depth of the outputs of both axes, divisible by `num_heads`.
        key_dim: Int, query and key depth of a head. Defaults to half of `filters / num_heads`,
            rounded down.
        momentum: Float from 0 to 1, of the batch normalizations. Defaults to `0.99`.
        epsilon: Positive float, of the batch normalizations. Defaults to `1e-5`.
        embeddings_initializer: Defaults to `N(0, e^-1/2)`, `e = filters / num_heads`.
        **kwargs: Of `RelativeAttentionLayer`, `AttentionLayer` (but `multi_query`) and
            `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, height, width, depth)` of known height and width.

    Returns:
        Tensor `(batch, height / strides, width / strides, filters)`, sizes rounded up.

    Raises:
        ValueError: Also if the map has not the size that the layer was built for.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import AxialAttention
    >>> images = keras.random.normal((2, 14, 10, 32))
    >>> keras.ops.shape(AxialAttention(64, strides=2)(images))
    (2, 7, 5, 64)
    """

    fixed_grid = True

    def __init__(
        self, filters: int, *, strides: int = 1, output_projection: bool = False, **kwargs
    ):
        arguments = {name: kwargs.pop(name) for name in self.arguments() if name in kwargs}
        super().__init__(**kwargs)
        arguments |= {"trainable": self.trainable, "dtype": self.dtype_policy}
        # The map is transposed for it, so that rows are columns.
        self.height_attention = RowAttention(filters, **arguments, name="height_attention")
        pooled = {"strides": strides, "output_projection": output_projection}
        self.width_attention = RowAttention(filters, **arguments, **pooled, name="width_attention")
        for name in self.arguments():
            setattr(self, name, getattr(self.width_attention, name))

    @classmethod
    def arguments(cls):
        arguments = RowAttention.arguments()
        del arguments["multi_query"]
        return arguments

    def build(self, inputs_shape):
        self.check_shapes(inputs_shape)
        batch, height, width, depth = inputs_shape
        self.built_for = (height, width, depth)
        self.height_attention.build((batch, width, height, depth))
        self.width_attention.build((batch, height, width, self.width_attention.filters))

    def call(self, inputs, training=None):
        check_call(self, inputs.shape)
        columns = ops.transpose(inputs, (0, 2, 1, 3))  # (b, width, height, depth)
        columns = self.height_attention(columns, training=training)
        rows = ops.transpose(columns, (0, 2, 1, 3))  # (b, height, width, filters)
        return self.width_attention(rows, training=training)

    def compute_output_shape(self, inputs_shape):
        return self.width_attention.compute_output_shape(inputs_shape)

    def check_shapes(self, inputs_shape):
        self.width_attention.check_shapes(inputs_shape)

    def count_flops(self, inputs_shape) -> dict[str, int]:
        batch, height, width, depth = inputs_shape
        columns = self.height_attention.count_flops((batch, width, height, depth))
        filters = self.width_attention.filters
        rows = self.width_attention.count_flops((batch, height, width, filters))
        return {part: columns[part] + rows[part] for part in rows}

    def count_map_elements(self, inputs_shape) -> int:
        batch, height, width, depth = inputs_shape
        columns = self.height_attention.count_map_elements((batch, width, height, depth))
        return columns + self.width_attention.count_map_elements(inputs_shape)
