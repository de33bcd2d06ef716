"""Squeeze-and-excitation (Hu et al., 2018, arXiv:1709.01507)."""

from typing import ClassVar

import keras
from keras import ops

from lambda_keras.layers.arguments import RATIO, check
from lambda_keras.layers.base import EXCITATION, Layer, inner_dense


@keras.saving.register_keras_serializable(package="lambda_keras")
class SqueezeExcitation(Layer):
    r"""Squeeze-and-excitation: rescales every channel by a gate computed from the channel means.

    .. math::

        y = x \cdot \operatorname{sigmoid}(W_2 \operatorname{relu}(W_1 \operatorname{mean}(x)
        + b_1) + b_2)

    (Hu et al., 2018, Eq. 2 to 4). The squeezed width is `ratio` times the channels;
    LambdaResNets use 1/4 (E.1 of LambdaNetworks).

    Args:
        ratio: Float in (0, 1], squeezed channels per input channel. Defaults to `0.25`.
        **kwargs: `name`, `dtype` and other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, *grid, channels)`.

    Returns:
        Tensor of the shape of `inputs`.

    Raises:
        ValueError: If `ratio` is not in (0, 1], or the inputs have no grid or unknown channels.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import SqueezeExcitation
    >>> keras.ops.shape(SqueezeExcitation()(keras.random.normal((2, 14, 10, 32))))
    (2, 14, 10, 32)
    """

    constraints: ClassVar = {"ratio": RATIO}

    def __init__(self, ratio: float = 0.25, **kwargs):
        super().__init__(**kwargs)
        self.keep(locals())

    def build(self, input_shape):
        channels = input_shape[-1]
        expected = "inputs (batch, *grid, channels) with a grid and a known number of channels"
        check(len(input_shape) >= 3 and channels, expected, inputs=tuple(input_shape))
        self.input_spec = keras.layers.InputSpec(min_ndim=3, axes={-1: channels})
        squeezed = self._squeezed(channels)
        self.squeeze = inner_dense(self, "squeeze", channels, squeezed, activation="relu")
        self.excite = inner_dense(self, "excite", squeezed, channels, activation="sigmoid")

    def call(self, inputs):
        grid_axes = tuple(range(1, len(inputs.shape) - 1))
        means = ops.mean(inputs, axis=grid_axes)
        gates = self.excite(self.squeeze(means))
        return inputs * ops.expand_dims(gates, grid_axes)

    def compute_output_shape(self, input_shape):
        return input_shape

    def count_flops(self, inputs_shape):
        channels = inputs_shape[-1]
        return {EXCITATION: 2 * 2 * channels * self._squeezed(channels)}

    def _squeezed(self, channels):
        return max(1, int(channels * self.ratio))
