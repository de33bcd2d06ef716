"""Batch normalization that is faster than Keras' on TensorFlow and JAX."""

import sys

import keras
from keras import ops

from lambda_keras.layers.arguments import EPSILON, MOMENTUM, check, check_bools, is_integer


@keras.saving.register_keras_serializable(package="lambda_keras")
class BatchNormalization(keras.layers.BatchNormalization):
    """`keras.layers.BatchNormalization`, faster on TensorFlow and JAX.

    Arguments, weights, values and statistics equal Keras'. On TensorFlow, Keras computes means,
    variances and normalized values one after the other, and differentiates each. Here a training
    step takes one kernel, and one for the gradients. In inference, TensorFlow fuses that kernel
    with the convolution before it, if the batch is known to be larger than 1. On JAX, XLA fuses
    all but mean and variance of a batch, which take one pass over the inputs here.

    If the channels are axis 1 of more than two, training sums over the axes after them first. This
    takes half of the time or less on large maps, and sums of millions stay exact.

    Keras computes everything else: masks, statistics of several replicas, batch renormalization,
    other axes, weights that are not in float32, and other backends, except PyTorch's statistics.

    Raises:
        ValueError: If `axis`, `momentum`, `epsilon` or `renorm_momentum` is out of its range, or
            `center`, `scale`, `renorm` or `synchronized` is not a bool; Keras checks the others.

    Example:
    >>> import numpy as np
    >>> from lambda_keras.layers import BatchNormalization
    >>> layer = BatchNormalization(momentum=0.5)
    >>> outputs = layer(np.array([[0.0], [2.0]], "float32"), training=True)
    >>> float(layer.moving_mean.numpy()[0])
    0.5
    """

    def __init__(self, axis=-1, momentum=0.99, epsilon=1e-3, *others, **kwargs):
        check(is_integer(axis), "an integer", axis=axis)
        rates = {"momentum": momentum, "renorm_momentum": kwargs.get("renorm_momentum", momentum)}
        for name, rate in rates.items():
            check(MOMENTUM.fits(rate), MOMENTUM.expected, **{name: rate})
        check(EPSILON.fits(epsilon), EPSILON.expected, epsilon=epsilon)
        given = dict(zip(("center", "scale"), others, strict=False)) | kwargs
        flags = given.keys() & {"center", "scale", "renorm", "synchronized"}
        check_bools(**{name: given[name] for name in sorted(flags)})
        super().__init__(axis, momentum, epsilon, *others, **kwargs)

    def build(self, input_shape):
        rank, shape = len(input_shape), tuple(input_shape)
        has_size = -rank <= self.axis < rank and shape[self.axis] is not None
        check(has_size, "an axis of the inputs of known size", axis=self.axis, inputs=shape)
        super().build(input_shape)

    def call(self, inputs, training=None, mask=None):
        training = bool(training and self.trainable and 0 not in inputs.shape)
        rank = len(inputs.shape)
        last, second = self.axis in (-1, rank - 1), self.axis == 1 and training
        ours = (
            keras.backend.backend() == "tensorflow"
            and (last or second)
            and (mask is None or not training)
            and not (self.synchronized and training)
            and not self.renorm
            and self.variable_dtype == "float32"
            # On a GPU the kernel for inference has no deterministic gradient.
            and (training or not _is_deterministic())
        )
        if not ours:
            return super().call(inputs, training=training, mask=mask)
        tf = sys.modules["tensorflow"]
        # The kernel computes in float32. On bfloat16 inputs it takes 10 times as long if the
        # channels do not fill vectors.
        fits_kernel = last and inputs.dtype == "bfloat16" and inputs.shape[-1] % 16 == 0
        x = inputs if fits_kernel else tf.cast(inputs, "float32")
        scale, offset = (
            constant(inputs.shape[self.axis]) if variable is None else variable.value
            for variable, constant in ((self.gamma, tf.ones), (self.beta, tf.zeros))
        )
        if last:
            outputs, statistics = self._by_kernel(tf, x, scale, offset, training)
        else:
            outputs, statistics = self._by_row(tf, x, scale, offset)
        if training:
            averages = self.moving_mean, self.moving_variance
            for average, value in zip(averages, statistics, strict=True):
                # An empty batch has no statistics.
                value = tf.where(tf.size(x) > 0, value, average.value)
                average.assign(average * self.momentum + value * (1 - self.momentum))
        return tf.cast(outputs, self.compute_dtype)

    def _moments(self, inputs, mask):
        backend, rank = keras.backend.backend(), len(inputs.shape)
        if backend == "tensorflow" or mask is not None or self.synchronized:
            return super()._moments(inputs, mask)
        axes = [axis for axis in range(rank) if axis != self.axis % rank]
        if backend == "torch":  # Keras' variance is a difference of squares, which cancels.
            variance, mean = sys.modules["torch"].var_mean(inputs, axes, correction=0)
            return mean, variance
        # One pass over the inputs: XLA takes two for Keras' variance. The difference of squares
        # cancels nothing, because inputs are shifted by the mean of the first example.
        shift = ops.stop_gradient(ops.mean(inputs[:1], axes, keepdims=True))
        shifted = inputs - shift
        mean = ops.mean(shifted, axes)
        variance = ops.maximum(ops.mean(shifted * shifted, axes) - mean * mean, 0)
        return mean + ops.reshape(shift, (-1,)), variance

    def _by_kernel(self, tf, x, scale, offset, training):
        """Normalizes channels last by the fused kernel; also returns mean and variance."""
        shape, channels = x.shape, x.shape[-1]
        # Fused with a convolution, single images take oneDNN over ten times as long on AVX2. A
        # list of positions is not fused.
        maybe_single = not training and shape[0] in (None, 1)
        as_list = len(shape) != 4 or maybe_single
        maps = tf.reshape(x, (-1, 1, 1, channels)) if as_list else x
        outputs, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=maps,
            scale=scale,
            offset=offset,
            mean=tf.zeros(0) if training else self.moving_mean.value,
            variance=tf.zeros(0) if training else self.moving_variance.value,
            epsilon=self.epsilon,
            is_training=training,
        )
        if training:
            # The kernel returns the unbiased variance; Keras uses the batch's own.
            count = tf.cast(tf.size(x) // channels, "float32")
            variance *= tf.maximum(count - 1, 1) / tf.maximum(count, 1)
        if as_list:
            outputs = tf.ensure_shape(tf.reshape(outputs, tf.shape(x)), shape)
        return outputs, (mean, variance)

    def _by_row(self, tf, x, scale, offset):
        """Normalizes axis 1 in training: sums over outer and inner axes at once are slow."""
        rows = tf.reshape(x, (tf.shape(x)[0], x.shape[1], tf.reduce_prod(tf.shape(x)[2:])))

        def mean(values):
            return tf.reduce_mean(tf.reduce_mean(values, axis=-1), axis=0)

        def per_row(values):
            return tf.repeat(values[None, :, None], tf.shape(x)[0], axis=0)

        means = mean(rows)
        centered = rows - per_row(means)
        variance = mean(centered * centered)
        outputs = centered * per_row(scale * tf.math.rsqrt(variance + self.epsilon))
        outputs += per_row(offset)
        return tf.ensure_shape(tf.reshape(outputs, tf.shape(x)), x.shape), (means, variance)


def _is_deterministic() -> bool:
    """Whether `tf.config.experimental.enable_op_determinism` was called."""
    return sys.modules["tensorflow.python.framework.config"].is_op_determinism_enabled()


def inner_batch_norm(
    layer, name: str, shape, axis: int = -1, dtype=None, gamma_initializer="ones"
) -> BatchNormalization:
    """Builds a normalization inside a layer, with its momentum, epsilon and dtype policy."""
    batch_norm = BatchNormalization(
        axis=axis,
        momentum=layer.momentum,
        epsilon=layer.epsilon,
        gamma_initializer=gamma_initializer,
        trainable=layer.trainable,
        dtype=dtype or layer.dtype_policy,
        name=name,
    )
    batch_norm.build(shape)
    return batch_norm
