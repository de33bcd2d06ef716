"""Double attention (Chen et al., 2018, arXiv:1810.11579)."""

from typing import ClassVar

import keras
from keras import ops

from lambda_keras.layers.arguments import EPSILON, MOMENTUM, RATIO, check
from lambda_keras.layers.attention.base import softmax
from lambda_keras.layers.base import CONTENT, PROJECTIONS, Layer, inner_dense
from lambda_keras.layers.batch_normalization import inner_batch_norm
from lambda_keras.layers.contraction import contract


@keras.saving.register_keras_serializable(package="lambda_keras")
class DoubleAttention(Layer):
    r"""Double attention: gathers features of the whole map, and distributes them to each position.

    .. math::

        y = x + \operatorname{BN}(V (B^\top A)\, W + w)

    .. math::

        A = x W_a + a, \qquad
        B = \operatorname{softmax}_{\text{positions}}(x W_b + b), \qquad
        V = \operatorname{softmax}_{\text{channels}}(x W_v + v)

    (Chen et al., 2018, Eq. 1 to 4, Figure 3): A are features, B the weights by which they are
    gathered, and V those by which they are distributed. Time and memory are linear in the number of
    positions. In a ResNet-50 this is the row "linear attention (Chen et al., 2018)" of Table 3 of
    LambdaNetworks.

    Args:
        ratio: Float in (0, 1], depth of A, B and V relative to the inputs' depth.
            Defaults to `0.5`.
        momentum: Float from 0 to 1, momentum of the moving statistics. Defaults to `0.99`.
        epsilon: Positive float, epsilon of the batch normalization. Defaults to `1e-5`.
        gamma_initializer: Initializer of the scale of the batch normalization. Defaults to
            `"zeros"`, so that the layer starts as the identity.
        kernel_regularizer: Regularizer of all projections. Defaults to `None`.
        **kwargs: `name`, `dtype` and other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor `(batch, height, width, channels)`; height and width may be unknown.
        training: Bool, whether the batch normalization uses the statistics of the batch.

    Returns:
        Tensor of the shape of `inputs`.

    Raises:
        ValueError: If an argument is out of its range, or the inputs are not such maps.

    Example:
    >>> import keras
    >>> from lambda_keras.layers import DoubleAttention
    >>> images = keras.random.normal((2, 14, 10, 32))
    >>> keras.ops.shape(DoubleAttention()(images))
    (2, 14, 10, 32)
    """

    constraints: ClassVar = {"ratio": RATIO, "momentum": MOMENTUM, "epsilon": EPSILON}

    def __init__(
        self,
        ratio: float = 0.5,
        *,
        momentum: float = 0.99,
        epsilon: float = 1e-5,
        gamma_initializer="zeros",
        kernel_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.keep(locals())

    def build(self, inputs_shape):
        channels = inputs_shape[-1]
        expected = "inputs (batch, height, width, channels) of a known number of channels"
        check(len(inputs_shape) == 4 and channels, expected, inputs=tuple(inputs_shape))
        self.input_spec = keras.layers.InputSpec(ndim=4, axes={-1: channels})
        units = self._units(channels)
        self.batch_norm = inner_batch_norm(
            self, "batch_norm", inputs_shape, gamma_initializer=self.gamma_initializer
        )
        self.features = self._dense("features", channels, units)
        self.gather = self._dense("gather", channels, units)
        self.distribute = self._dense("distribute", channels, units)
        self.project = self._dense("project", units, channels)

    def call(self, inputs, training=None):
        if inputs.shape[0] == 0:  # Empty batches crash some backends.
            return inputs
        batch, height, width, channels = ops.shape(inputs)
        positions = ops.reshape(inputs, (-1, channels))

        def projected(dense):
            return ops.reshape(dense(positions), (batch, height * width, dense.units))

        features = projected(self.features)  # (b, n, m)
        gather = ops.cast(softmax(projected(self.gather), axis=1), features.dtype)  # (b, n, k)
        gathered = contract("bnk,bnm->bkm", gather, features)
        distribute = ops.cast(softmax(projected(self.distribute)), features.dtype)  # (b, n, k)
        mixed = contract("bnk,bkm->bnm", distribute, gathered)
        outputs = self.project(ops.reshape(mixed, (-1, mixed.shape[-1])))
        outputs = ops.reshape(outputs, (batch, height, width, channels))
        return inputs + self.batch_norm(outputs, training=training)

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def count_flops(self, inputs_shape) -> dict[str, int]:
        _, height, width, channels = inputs_shape
        units = self._units(channels)
        return {
            PROJECTIONS: 2 * height * width * 4 * channels * units,
            CONTENT: 2 * height * width * 2 * units**2,
        }

    def _units(self, channels):
        return max(1, int(channels * self.ratio))

    def _dense(self, name, depth, units):
        kernel = {"kernel_initializer": "he_normal", "kernel_regularizer": self.kernel_regularizer}
        return inner_dense(self, name, depth, units, **kernel)
