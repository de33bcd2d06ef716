"""Random augmentations of an image or a batch, as functions of a seed of two integers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

ERASING_TRIALS = 10  # random windows, of which the first that fits is erased

# Takes images `(batch, height, width, 3)`, labels `(batch, classes)` and a seed of two integers.
Mix = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]

# Derives the seed of an independent choice. TensorFlow's annotation of its result is wrong.
fold_in: Any = tf.random.fold_in


def random_shift(
    image: tf.Tensor, seed: tf.Tensor, size: int, fraction: float = 0.125
) -> tf.Tensor:
    """Shifts an image `(size, size, 3)`, with a black border, by up to a fraction of its size."""
    padding = round(size * fraction)
    image = tf.pad(image, [[padding, padding], [padding, padding], [0, 0]])
    return tf.image.stateless_random_crop(image, (size, size, 3), seed)


def random_window(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Samples a window of an image of shape (height, width, channels): top, left, height, width.

    The usual ImageNet training crop: 8 to 100 % of the area, aspect ratio 3/4 to 4/3.
    """
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        shape,
        tf.zeros((1, 0, 4)),
        seed,
        min_object_covered=0.0,
        area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3),
        use_image_if_no_bounding_boxes=True,
    )
    return tf.concat([begin[:2], size[:2]], axis=0)


def color_jitter(image: tf.Tensor, seed: tf.Tensor, strength: float) -> tf.Tensor:
    """Scales brightness, contrast and saturation, in this order, of an image in [0, 255].

    The factors are uniform from `1 - strength` to `1 + strength`. They scale pixels, their
    distance to the image's mean gray, and their distance to their own gray, as in torchvision.
    TensorFlow's operations add to the brightness, and Keras' are no functions of a seed.
    """
    factors = tf.unstack(
        tf.random.stateless_uniform([3], seed, max(0.0, 1 - strength), 1 + strength)
    )
    image = tf.clip_by_value(image * factors[0], 0, 255)
    mean = tf.reduce_mean(tf.image.rgb_to_grayscale(image))
    image = tf.clip_by_value(mean + (image - mean) * factors[1], 0, 255)
    gray = tf.image.rgb_to_grayscale(image)
    return tf.clip_by_value(gray + (image - gray) * factors[2], 0, 255)


def random_erasing(image: tf.Tensor, seed: tf.Tensor, probability: float) -> tf.Tensor:
    """Replaces a window of an image in [0, 255] by uniform noise, with some probability.

    Random erasing (arXiv:1708.04896): the window covers 2 to 33 % of the image, and its height is
    0.3 to 3.3 times its width. Of ten random windows the first that fits is erased.
    """
    size = tf.cast(tf.shape(image)[:2], tf.float32)
    areas, ratios, tops, lefts = (
        tf.random.stateless_uniform([ERASING_TRIALS], fold_in(seed, number)) for number in range(4)
    )
    area = tf.reduce_prod(size) * (0.02 + areas * (1 / 3 - 0.02))
    ratio = tf.exp(tf.math.log(0.3) * (1 - 2 * ratios))
    sides = tf.round(tf.sqrt(area * tf.stack([ratio, 1 / ratio])))  # (2, trials)
    fits = tf.reduce_all(sides < size[:, None], axis=0)
    wanted = tf.random.stateless_uniform([], fold_in(seed, 4)) < probability
    index = tf.argmax(tf.cast(fits, tf.int32))
    first = tf.floor(tf.stack([tops, lefts])[:, index] * (size - sides[:, index] + 1))
    window = in_window(tf.shape(image), first, first + sides[:, index])
    noise = tf.random.stateless_uniform(tf.shape(image), fold_in(seed, 5), 0, 255)
    return tf.where(window & wanted & tf.reduce_any(fits), noise, image)


def in_window(size: tf.Tensor, first: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """Returns which pixels are in a window: booleans of shape `(height, width, 1)`.

    `first` is a row and a column in the window, `last` the ones after it.
    """
    rows, columns = (tf.cast(tf.range(size[axis]), first.dtype) for axis in (0, 1))
    in_rows = (rows >= first[0]) & (rows < last[0])
    in_columns = (columns >= first[1]) & (columns < last[1])
    return (in_rows[:, None] & in_columns)[..., None]


def random_pixel(size: tf.Tensor, seed: tf.Tensor, number: int) -> tf.Tensor:
    """Draws a row and a column; `number` and the next one are folded into the seed."""
    seeds = [fold_in(seed, number + axis) for axis in (0, 1)]
    return tf.stack(
        [tf.random.stateless_uniform([], seeds[i], 0, size[i], tf.int32) for i in (0, 1)]
    )


def mix_up(
    images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """MixUp (arXiv:1710.09412): blends a batch with itself in reverse order.

    The proportion is one for the batch, from Beta(alpha, alpha): at 0.2 most images stay nearly
    the same, at 1 all proportions are equally likely.
    """
    kept = beta(seed, alpha)
    return _blend(images, kept), _blend(labels, kept)


def cut_mix(
    images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """CutMix (arXiv:1905.04899): pastes a window from the batch in reverse order.

    The window is one for the batch. Its area is a proportion from Beta(alpha, alpha), clipped at
    the border; labels are blended in proportion to the areas.
    """
    size = tf.shape(images)[1:3]
    sides = tf.cast(size, tf.float32) * tf.sqrt(1 - beta(seed, alpha))
    half = tf.cast(sides, tf.int32) // 2
    center = random_pixel(size, seed, 3)
    first, last = tf.maximum(center - half, 0), tf.minimum(center + half, size)
    area = tf.cast(tf.reduce_prod(last - first), tf.float32)
    kept = 1 - area / tf.cast(tf.reduce_prod(size), tf.float32)
    window = in_window(size, first, last)
    return tf.where(window, tf.reverse(images, [0]), images), _blend(labels, kept)


def either(mixup: float | None, cutmix: float | None) -> Mix | None:
    """Creates the function that mixes by MixUp, CutMix or both at random; None: without one."""
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
