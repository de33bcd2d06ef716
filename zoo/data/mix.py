"""Random mixtures of the images of a batch and of their labels; the same seed gives the same."""

from collections.abc import Callable

import tensorflow as tf

from zoo.data.augment import fold_in

# Takes images `(batch, height, width, 3)`, labels `(batch, classes)` and a seed of two integers.
Mix = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


def mix_up(
    images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Adds the images and labels of a batch to those in reverse order (arXiv:1710.09412).

    All of them in one proportion, which is drawn from Beta(alpha, alpha). Neither Keras' nor the
    Model Garden's draws numbers that follow from a seed.

    Args:
        images: Of shape `(batch, height, width, 3)`, floats.
        labels: Of shape `(batch, classes)`, floats.
        seed: Two integers.
        alpha: Above 0; 0.2 leaves most images nearly as they are, 1 mixes in any proportion.
    """
    kept = beta(seed, alpha)
    return _blend(images, kept), _blend(labels, kept)


def cut_mix(
    images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Puts a window of each image of the batch in reverse order into an image (arXiv:1905.04899).

    The window is one for all of them. Its area is a proportion from Beta(alpha, alpha), less where
    it goes over the border; labels are mixed in the proportion of the areas. Arguments are those of
    `mix_up`.
    """
    size = tf.shape(images)[1:3]
    sides = tf.cast(size, tf.float32) * tf.sqrt(1 - beta(seed, alpha))
    half = tf.cast(sides, tf.int32) // 2
    centre = tf.stack(
        [
            tf.random.stateless_uniform([], fold_in(seed, 3 + axis), 0, size[axis], tf.int32)
            for axis in range(2)
        ]
    )
    first, last = tf.maximum(centre - half, 0), tf.minimum(centre + half, size)
    rows, columns = (
        (tf.range(size[axis]) >= first[axis]) & (tf.range(size[axis]) < last[axis])
        for axis in range(2)
    )
    window = (rows[:, None] & columns[None, :])[None, :, :, None]
    area = tf.cast(tf.reduce_prod(last - first), tf.float32)
    kept = 1 - area / tf.cast(tf.reduce_prod(size), tf.float32)
    return tf.where(window, tf.reverse(images, [0]), images), _blend(labels, kept)


def either(mixup: float | None, cutmix: float | None) -> Mix | None:
    """Returns the function that mixes a batch: MixUp or CutMix, or either with an even chance.

    Args:
        mixup: The alpha of `mix_up`; None: without.
        cutmix: The alpha of `cut_mix`; None: without.
    """
    if mixup is None and cutmix is None:
        return None

    def mix(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def up() -> tuple[tf.Tensor, tf.Tensor]:
            return mix_up(images, labels, seed, mixup or 0)

        def cut() -> tuple[tf.Tensor, tf.Tensor]:
            return cut_mix(images, labels, seed, cutmix or 0)

        if mixup is None or cutmix is None:
            return up() if cutmix is None else cut()
        return tf.cond(tf.random.stateless_uniform([], fold_in(seed, 0)) < 0.5, up, cut)

    return mix


def beta(seed: tf.Tensor, alpha: float) -> tf.Tensor:
    """Draws a number from Beta(alpha, alpha), between 0 and 1.

    It is `a / (a + b)` of two numbers of the gamma distribution. Their logarithms are taken from
    Gamma(alpha + 1), for with a small alpha both are often 0 in float32.
    """
    logarithms = [
        tf.math.log(tf.random.stateless_gamma([], fold_in(seed, number), tf.constant(alpha + 1.0)))
        + tf.math.log(tf.random.stateless_uniform([], fold_in(seed, number + 10), 1e-30)) / alpha
        for number in (1, 2)
    ]
    return tf.sigmoid(logarithms[0] - logarithms[1])


def _blend(values: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
    return kept * values + (1 - kept) * tf.reverse(values, [0])
