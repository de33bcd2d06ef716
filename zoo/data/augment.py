"""Random augmentations of one image, as functions of a seed of two integers."""

from typing import Any

import tensorflow as tf

ERASING_TRIALS = 10  # random windows, of which the first that fits is erased

# Derives the seed of an independent choice. TensorFlow's annotation of its result is wrong.
fold_in: Any = tf.random.fold_in


def random_shift(
    image: tf.Tensor, seed: tf.Tensor, size: int, fraction: float = 0.125
) -> tf.Tensor:
    """Shifts an image `(size, size, 3)` in both directions, by up to a fraction of its size.

    The border becomes black. It is for digits, which flips would turn into others.
    """
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
    size = tf.shape(image)[:2]
    height, width = (tf.cast(size[axis], tf.float32) for axis in range(2))
    areas, ratios, tops, lefts = (
        tf.random.stateless_uniform([ERASING_TRIALS], fold_in(seed, number)) for number in range(4)
    )
    area = height * width * (0.02 + areas * (1 / 3 - 0.02))
    ratio = tf.exp(tf.math.log(0.3) * (1 - 2 * ratios))
    rows, columns = (tf.round(tf.sqrt(area * part)) for part in (ratio, 1 / ratio))
    fits = (rows < height) & (columns < width)
    wanted = tf.random.stateless_uniform([], fold_in(seed, 4)) < probability
    index = tf.argmax(tf.cast(fits, tf.int32))
    top = tf.floor(tops[index] * (height - rows[index] + 1))
    left = tf.floor(lefts[index] * (width - columns[index] + 1))
    y, x = (tf.range(tf.cast(length, tf.int32)) for length in (height, width))
    y, x = tf.cast(y, tf.float32)[:, None, None], tf.cast(x, tf.float32)[None, :, None]
    window = (y >= top) & (y < top + rows[index]) & (x >= left) & (x < left + columns[index])
    noise = tf.random.stateless_uniform(tf.shape(image), fold_in(seed, 5), 0, 255)
    return tf.where(window & wanted & tf.reduce_any(fits), noise, image)
