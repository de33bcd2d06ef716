"""RandAugment (arXiv:1909.13719) as in TensorFlow's Model Garden, as a function of a seed.

Operations work on uint8 images of shape `(height, width, 3)`. A strength of 1 is magnitude 10.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import tensorflow as tf

from zoo.data.augment import fold_in, in_window, random_pixel

SMALLEST_IMAGE = 128  # pixels, in the paper: Table 20

Operation = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # of an image and a seed


def rand_augment(num_layers: int, magnitude: float, size: int) -> Operation:
    """Creates the augmentation of a float32 image in [0, 255].

    Each layer applies one operation of `operations`, or none: 17 choices with equal probability.
    """
    choices = [lambda image, seed: image, *operations(magnitude / 10, size).values()]

    def apply(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        image = tf.cast(tf.clip_by_value(image, 0, 255), tf.uint8)
        for layer_seed in tf.unstack(tf.random.split(seed, num_layers)):
            choice = tf.random.stateless_uniform(
                [], fold_in(layer_seed, 0), 0, len(choices), tf.int32
            )
            branches = [partial(op, image, fold_in(layer_seed, 1)) for op in choices]
            image = tf.switch_case(choice, branches)
        return tf.cast(image, tf.float32)

    return apply


def operations(strength: float, size: int) -> Mapping[str, Operation]:
    """Creates the 16 operations of a strength by name, for images of a size in pixels.

    Shifts and holes are in pixels, whatever the size, down to 128 (the smallest in the paper);
    below that they shrink with it. It is the Model Garden's table of levels with its quirks:
    `solarize` inverts the whole image at strength 1, as its threshold of 256 is 0 in 8 bits.
    """
    scale = min(1.0, size / SMALLEST_IMAGE)
    factor = 1.8 * strength + 0.1
    mask = 256 - 2 ** (8 - min(8, max(1, int(4 * strength))))
    half, shift, shear = int(40 * scale * strength), 100 * scale * strength, 0.3 * strength
    threshold, addition = int(256 * strength) % 256, int(110 * strength)

    def solarize_add(image: tf.Tensor) -> tf.Tensor:
        return tf.where(image < 128, _to_uint8(tf.cast(image, tf.int32) + addition), image)

    def signed(level: float, seed: tf.Tensor) -> tf.Tensor:
        return tf.where(tf.random.stateless_uniform([], seed) < 0.5, level, -level)

    return {
        "auto_contrast": lambda image, _: auto_contrast(image),
        "equalize": lambda image, _: equalize(image),
        "invert": lambda image, _: 255 - image,
        "rotate": lambda image, seed: rotate(image, signed(30 * strength, seed)),
        "posterize": lambda image, _: image & mask,
        "solarize": lambda image, _: tf.where(image < threshold, image, 255 - image),
        "color": lambda image, _: blend(tf.image.rgb_to_grayscale(image), image, factor),
        "contrast": lambda image, _: tf.image.adjust_contrast(image, factor),
        "brightness": lambda image, _: blend(tf.zeros_like(image), image, factor),
        "sharpness": lambda image, _: sharpness(image, factor),
        "shear_x": lambda image, seed: _affine(image, 1, signed(shear, seed), 0, 0, 1, 0),
        "shear_y": lambda image, seed: _affine(image, 1, 0, 0, signed(shear, seed), 1, 0),
        "translate_x": lambda image, seed: _affine(image, 1, 0, signed(shift, seed), 0, 1, 0),
        "translate_y": lambda image, seed: _affine(image, 1, 0, 0, 0, 1, signed(shift, seed)),
        "cutout": partial(cutout, half=half),
        "solarize_add": lambda image, _: solarize_add(image),
    }


def auto_contrast(image: tf.Tensor) -> tf.Tensor:
    """Stretches each channel to [0, 255]; a channel of one value stays."""
    values: Any = tf.cast(image, tf.float32)
    low = tf.reduce_min(values, (0, 1))
    high = tf.reduce_max(values, (0, 1))
    scale = 255.0 / (high - low)
    stretched = _to_uint8(values * scale - low * scale)
    return tf.where(high > low, stretched, image)


def equalize(image: tf.Tensor) -> tf.Tensor:
    """Flattens each channel's histogram, as PIL's `ImageOps.equalize`."""
    channels = []
    for channel in tf.unstack(image, axis=-1):
        values = tf.cast(channel, tf.int32)
        histogram: Any = tf.math.bincount(values, minlength=256, maxlength=256)
        # The number of pixels, without those of the highest value, over 255.
        step = (tf.size(values) - histogram[tf.reduce_max(values)]) // 255
        ranks = tf.cumsum(histogram, exclusive=True) + step // 2
        # PIL's table starts with 0; a step of 0 leaves the channel unchanged.
        ranks = tf.where(tf.range(256) > 0, ranks // tf.maximum(step, 1), 0)
        equalized = tf.gather(tf.cast(tf.minimum(ranks, 255), tf.uint8), values)
        channels.append(tf.where(step > 0, equalized, channel))
    return tf.stack(channels, -1)


def rotate(image: tf.Tensor, degrees: tf.Tensor) -> tf.Tensor:
    """Rotates an image about its center, counterclockwise for positive degrees."""
    angle = degrees * (math.pi / 180)
    cos, sin = tf.cos(angle), tf.sin(angle)
    height, width = (tf.cast(tf.shape(image)[axis] - 1, tf.float32) for axis in (0, 1))
    x = (width - (cos * width - sin * height)) / 2
    y = (height - (sin * width + cos * height)) / 2
    return _affine(image, cos, -sin, x, sin, cos, y)


def sharpness(image: tf.Tensor, factor: float) -> tf.Tensor:
    """Blends an image with its smoothed version; the border of one pixel stays."""
    kernel = tf.constant([[1, 1, 1], [1, 5, 1], [1, 1, 1]], tf.float32) / 13
    kernel = tf.tile(kernel[:, :, None, None], (1, 1, 3, 1))
    smooth = tf.nn.depthwise_conv2d(
        tf.cast(image, tf.float32)[None], kernel, (1, 1, 1, 1), "VALID"
    )[0]
    inner = tf.pad(tf.ones_like(smooth, tf.bool), ((1, 1), (1, 1), (0, 0)))
    smooth = tf.pad(_to_uint8(smooth), ((1, 1), (1, 1), (0, 0)))
    return blend(tf.where(inner, smooth, image), image, factor)


def cutout(image: tf.Tensor, seed: tf.Tensor, half: int) -> tf.Tensor:
    """Grays a square of twice `half` pixels (arXiv:1708.04552), whose center is in the image."""
    center = random_pixel(tf.shape(image), seed, 0)
    window = in_window(tf.shape(image), center - half, center + half)
    return tf.where(window, tf.constant(128, tf.uint8), image)


def blend(start: tf.Tensor, end: tf.Tensor, factor: float) -> tf.Tensor:
    """Interpolates two images, or extrapolates for factors above 1, and clips to [0, 255]."""
    begin = tf.cast(start, tf.float32)
    return _to_uint8(begin + factor * (tf.cast(end, tf.float32) - begin))


def _to_uint8(values: Any) -> tf.Tensor:
    return tf.cast(tf.clip_by_value(values, 0, 255), tf.uint8)


def _affine(image: tf.Tensor, *matrix: Any) -> tf.Tensor:
    """Moves pixels from `(a x + b y + c, d x + e y + f)` to `(x, y)`; borders are reflected."""
    transform = tf.stack([tf.cast(entry, tf.float32) for entry in (*matrix, 0, 0)])
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=image[None],
        transforms=transform[None],
        output_shape=tf.shape(image)[:2],
        fill_value=0.0,
        interpolation="NEAREST",
        fill_mode="REFLECT",
    )[0]
