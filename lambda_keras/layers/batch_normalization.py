"""Batch normalization by TensorFlow's fused kernels."""

import sys

import keras


@keras.saving.register_keras_serializable(package="lambda_keras")
class BatchNormalization(keras.layers.BatchNormalization):
    """`keras.layers.BatchNormalization`, faster on TensorFlow.

    Arguments, weights, values and statistics are those of Keras. Keras computes means, variances
    and normalized values one after the other, and TensorFlow differentiates each. Here a training
    step takes one kernel, and one for the gradients. In inference on batches that are known to be
    larger than 1 TensorFlow joins that kernel with the convolution before it. JAX does all that by
    itself.

    What the kernel cannot do is Keras' own: masks, several replicas that share statistics, batch
    renormalization, other axes than the last, weights that are not in float32. So are other
    backends.

    Example:

    >>> import numpy as np
    >>> from lambda_keras.layers import BatchNormalization
    >>> layer = BatchNormalization(momentum=0.5)
    >>> outputs = layer(np.array([[0.0], [2.0]], "float32"), training=True)
    >>> float(layer.moving_mean.numpy()[0])
    0.5
    """

    def call(self, inputs, training=None, mask=None):
        training = bool(training and self.trainable)
        fused = (
            keras.backend.backend() == "tensorflow"
            and (mask is None or not training)
            and not (self.synchronized and training)
            and not self.renorm
            and self.axis in (-1, len(inputs.shape) - 1)
            and self.variable_dtype == "float32"
        )
        if not fused:
            return super().call(inputs, training=training, mask=mask)
        tf = sys.modules["tensorflow"]
        channels = inputs.shape[-1]
        x = tf.cast(inputs, "float32")
        # Joined with a convolution, single images take oneDNN over ten times as long on AVX2. A
        # list of positions is not joined.
        maybe_single = not training and inputs.shape[0] in (None, 1)
        as_list = len(inputs.shape) != 4 or maybe_single
        if as_list:
            x = tf.reshape(x, (-1, 1, 1, channels))
        statistics = [self.moving_mean.value, self.moving_variance.value]
        outputs, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=tf.ones(channels) if self.gamma is None else self.gamma.value,
            offset=tf.zeros(channels) if self.beta is None else self.beta.value,
            mean=tf.zeros(0) if training else statistics[0],
            variance=tf.zeros(0) if training else statistics[1],
            epsilon=self.epsilon,
            is_training=training,
        )
        if training:
            # The kernel's variance is that of the population that a batch is a sample of.
            count = tf.cast(tf.size(x) // channels, "float32")
            variance *= tf.maximum(count - 1, 1) / tf.maximum(count, 1)
            for average, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
                value = tf.where(count > 0, value, average.value)  # of nothing there are none
                average.assign(average * self.momentum + value * (1 - self.momentum))
        if as_list:
            outputs = tf.ensure_shape(tf.reshape(outputs, tf.shape(inputs)), inputs.shape)
        return tf.cast(outputs, self.compute_dtype)
