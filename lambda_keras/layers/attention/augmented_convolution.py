"""Attention-augmented convolution (Bello et al., 2019, arXiv:1904.09925)."""

import math

import keras
import numpy as np
from keras import ops

from lambda_keras.layers.attention.base import MapLayer
from lambda_keras.layers.attention.relative_attention import GlobalAttention
from lambda_keras.layers.base import CONVOLUTION
from lambda_keras.layers.pooling import average_pool
from lambda_keras.layers.tiles import strided


@keras.saving.register_keras_serializable(package="lambda_keras")
class AugmentedConvolution(MapLayer):
    r"""3x3 convolution and global self-attention side by side.

    .. math::

        y = \operatorname{concat}(\operatorname{convolution}(x), \operatorname{attention}(x)\, W)

    (Bello et al., 2019, section 3.2): the convolution makes the first `filters - value_filters`
    channels, and `GlobalAttention`, which has relative positions, the others. In a
    ResNet-50 this is the row "relative self-attention (Bello et al., 2019)" of Table 3 of
    LambdaNetworks.

    Args:
        filters: Int, depth of the outputs.
        num_heads: Int, number of heads. Defaults to `8`.
        key_dim: Int, query and key depth of a head. Defaults to the depth in the paper's
            ResNets, `max(filters / 5, 20 num_heads) / num_heads`.
        value_filters: Int, depth of the outputs of the attention, divisible by `num_heads`.
            Defaults to the multiple of `num_heads` nearest to `filters / 10`, at least one.
        strides: Int, strides of the convolution, and of the 3-wide average pooling before the
            attention. Defaults to `1`.
        attention_pool: Int, factor by which the same pooling reduces the map before the attention;
            bilinear interpolation enlarges the outputs. Defaults to `1`.
        kernel_initializer: Initializer of the projections. Defaults to `N(0, d^-1/2)`, d the input
            depth of the projection.
        kernel_regularizer: Regularizer of projections and convolution. Defaults to `None`.
        **kwargs: `name`, `dtype` and other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, height, width, depth)` of known height and width.
        training: Bool, without effect.

    Returns:
        Tensor `(batch, height / strides, width / strides, filters)`, sizes rounded up.

    Raises:
        ValueError: If an argument is out of its range, or does not fit the shape of the inputs; if
            the map does not have the size that the layer was built for.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import AugmentedConvolution
    >>> images = keras.random.normal((2, 14, 10, 32))
    >>> keras.ops.shape(AugmentedConvolution(64, strides=2)(images))
    (2, 7, 5, 64)
    """

    fixed_grid = True

    def __init__(
        self,
        filters: int,
        *,
        num_heads: int = 8,
        key_dim: int | None = None,
        value_filters: int | None = None,
        strides: int = 1,
        attention_pool: int = 1,
        kernel_initializer=None,
        kernel_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.keep(locals())
        if value_filters is None:
            value_filters = max(round(filters / 10 / num_heads), 1) * num_heads
        self.value_filters: int = value_filters
        expected = "value_filters to be less than filters"
        self.require(value_filters < filters, expected, "value_filters", "filters")
        if key_dim is None:
            key_dim = max(filters // 5, 20 * num_heads) // num_heads
        self.key_dim: int = key_dim
        layer_arguments = {
            "kernel_regularizer": kernel_regularizer,
            "trainable": self.trainable,
            "dtype": self.dtype_policy,
        }
        self.attention = GlobalAttention(
            value_filters,
            num_heads=num_heads,
            key_dim=key_dim,
            output_projection=True,
            kernel_initializer=kernel_initializer,
            name="attention",
            **layer_arguments,
        )
        self.convolution = keras.layers.Conv2D(
            filters - value_filters,
            3,
            strides=strides,
            padding="same",
            use_bias=False,
            kernel_initializer="he_normal",
            data_format="channels_last",
            name="convolution",
            **layer_arguments,
        )
        self.kernel_initializer = self.attention.kernel_initializer

    def build(self, inputs_shape):
        super().build(inputs_shape)
        self.convolution.build(inputs_shape)
        self.attention.build(self._attended_shape(inputs_shape))

    def outputs(self, inputs, training):
        del training
        convolved = self.convolution(inputs)  # (b, height, width, filters - value_filters)
        reduction = self.strides * self.attention_pool
        attended = average_pool(inputs, 3, reduction) if reduction > 1 else inputs
        attended = self.attention(attended)
        if self.attention_pool > 1:
            attended = _enlarged(_enlarged(attended, 1, convolved.shape[1]), 2, convolved.shape[2])
        return ops.concatenate([convolved, attended], axis=-1)

    def count_flops(self, inputs_shape) -> dict[str, int]:
        height, width = strided(inputs_shape[1:3], self.strides)
        kernel = 9 * inputs_shape[-1] * (self.filters - self.value_filters)
        attended = self.attention.count_flops(self._attended_shape(inputs_shape))
        return {CONVOLUTION: 2 * height * width * kernel, **attended}

    def count_map_elements(self, inputs_shape) -> int:
        return self.attention.count_map_elements(self._attended_shape(inputs_shape))

    def _attended_shape(self, inputs_shape):
        reduced = strided(inputs_shape[1:3], self.strides * self.attention_pool)
        return (inputs_shape[0], *reduced, inputs_shape[-1])


def _enlarged(maps, axis: int, size: int):
    """Bilinear interpolation along an axis; TensorFlow's own is wrong under XLA."""
    batch, *shape = ops.shape(maps)
    small, around = shape[axis - 1], [batch, *shape[: axis - 1]]
    places = np.clip((np.arange(size) + 0.5) * small / size - 0.5, 0, small - 1)
    weights = np.maximum(1 - np.abs(places[:, None] - np.arange(small)), 0)
    rows = ops.reshape(maps, (-1, small, math.prod(shape[axis:])))
    rows = ops.matmul(ops.cast(weights, maps.dtype), rows)
    return ops.reshape(rows, (*around, size, *shape[axis:]))
