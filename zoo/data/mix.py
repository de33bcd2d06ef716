"""MixUp and CutMix of a batch, as functions of a seed of two integers."""

from collections.abc import Callable
from functools import partial

import tensorflow as tf

from zoo.data.augment import fold_in

# Takes images `(batch, height, width, 3)`, labels `(batch, classes)` and a seed of two integers.
Mix = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


def mix_up(
    images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """MixUp (arXiv:1710.09412): blends a batch with itself in reverse order.

    The proportion is one for the batch, from Beta(alpha, alpha). Neither Keras' MixUp nor the
    Model Garden's is a function of a seed.

    Args:
        images: Floats of shape `(batch, height, width, 3)`.
        labels: Floats of shape `(batch, classes)`.
        seed: Two integers.
        alpha: Parameter of the distribution, above 0. At 0.2 most images stay nearly the same, at
            1 all proportions are equally likely.
    """
    kept = beta(seed, alpha)
    return _blend(images, kept), _blend(labels, kept)


def cut_mix(
    images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """CutMix (arXiv:1905.04899): pastes a window from the batch in reverse order.

    The window is one for the batch. Its area is a proportion from Beta(alpha, alpha), clipped at
    the border; labels are blended in proportion to the areas. Arguments are those of `mix_up`.
    """
    size = tf.shape(images)[1:3]
    sides = tf.cast(size, tf.float32) * tf.sqrt(1 - beta(seed, alpha))
    half = tf.cast(sides, tf.int32) // 2
    center = tf.stack(
        [
            tf.random.stateless_uniform([], fold_in(seed, 3 + axis), 0, size[axis], tf.int32)
            for axis in range(2)
        ]
    )
    first, last = tf.maximum(center - half, 0), tf.minimum(center + half, size)
    rows, columns = (
        (tf.range(size[axis]) >= first[axis]) & (tf.range(size[axis]) < last[axis])
        for axis in range(2)
    )
    window = (rows[:, None] & columns[None, :])[None, :, :, None]
    area = tf.cast(tf.reduce_prod(last - first), tf.float32)
    kept = 1 - area / tf.cast(tf.reduce_prod(size), tf.float32)
    return tf.where(window, tf.reverse(images, [0]), images), _blend(labels, kept)


def either(mixup: float | None, cutmix: float | None) -> Mix | None:
    """Creates the function that mixes a batch by MixUp, CutMix, or one of both at random.

    Args:
        mixup: Alpha of `mix_up`; None: without.
        cutmix: Alpha of `cut_mix`; None: without.
    """
    alphas = ((mix_up, mixup), (cut_mix, cutmix))
    mixes = [partial(mix, alpha=alpha) for mix, alpha in alphas if alpha is not None]
    if len(mixes) < 2:
        return mixes[0] if mixes else None

    def mix(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        first, second = (partial(one, images, labels, seed) for one in mixes)
        return tf.cond(tf.random.stateless_uniform([], fold_in(seed, 0)) < 0.5, first, second)

    return mix


def beta(seed: tf.Tensor, alpha: float) -> tf.Tensor:
    """Draws a number from Beta(alpha, alpha), between 0 and 1.

    It is `a / (a + b)` for `a` and `b` from Gamma(alpha), whose logarithms are computed from
    Gamma(alpha + 1): for small alpha, `a` and `b` are often 0 in float32.
    """
    logarithms = [
        tf.math.log(tf.random.stateless_gamma([], fold_in(seed, number), tf.constant(alpha + 1.0)))
        + tf.math.log(tf.random.stateless_uniform([], fold_in(seed, number + 10), 1e-30)) / alpha
        for number in (1, 2)
    ]
    return tf.sigmoid(logarithms[0] - logarithms[1])


def _blend(values: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
    return kept * values + (1 - kept) * tf.reverse(values, [0])
