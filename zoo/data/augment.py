"""Random augmentations of an image or a batch, as functions of a seed of two integers."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import tensorflow as tf

SMALLEST_IMAGE = 128  # pixels, in RandAugment's paper: Table 20
ERASING_TRIALS = 10  # random windows, of which the first that fits is erased

# Takes images `(batch, height, width, 3)`, labels `(batch, classes)` and a seed of two integers.
Mix = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]

Operation = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # of an image and a seed

# Derives the seed of an independent choice. TensorFlow's annotation of its result is wrong.
fold_in: Any = tf.random.fold_in


def to_uint8(image: tf.Tensor) -> tf.Tensor:
    """Rounds an image in [0, 255]."""
    return tf.cast(image + 0.5, tf.uint8)


def random_shift(image: tf.Tensor, seed: tf.Tensor, size: int, fraction: float) -> tf.Tensor:
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
    TensorFlow's operations add to the brightness, and Keras' are not functions of a seed.
    """
    factors = tf.unstack(
        tf.random.stateless_uniform([3], seed, max(0.0, 1 - strength), 1 + strength)
    )
    image = tf.cast(image, tf.float32)
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
    draws = tf.random.stateless_uniform([ERASING_TRIALS * 4 + 1], seed)
    areas, ratios, tops, lefts, choice = tf.split(draws, [*[ERASING_TRIALS] * 4, 1])
    area = tf.reduce_prod(size) * (0.02 + areas * (1 / 3 - 0.02))
    ratio = tf.exp(tf.math.log(0.3) * (1 - 2 * ratios))
    sides = tf.round(tf.sqrt(area * tf.stack([ratio, 1 / ratio])))  # (2, trials)
    fits = tf.reduce_all(sides < size[:, None], axis=0)
    index = tf.argmax(tf.cast(fits, tf.int32))
    side = sides[:, index]
    first = tf.floor(tf.stack([tops, lefts])[:, index] * (size - side + 1))
    first, side = tf.cast(first, tf.int32), tf.cast(side, tf.int32)

    def erased() -> tf.Tensor:
        shape = tf.concat([side, [3]], 0)
        noise = tf.random.stateless_uniform(shape, fold_in(seed, 0), 0, 256, tf.int32)
        return paste(image, first, first + side, tf.cast(noise, image.dtype))

    return tf.cond((choice[0] < probability) & tf.reduce_any(fits), erased, lambda: image)


def paste(images: Any, first: tf.Tensor, last: tf.Tensor, patch: tf.Tensor) -> tf.Tensor:
    """Replaces a window of an image, or of each of a batch, by a patch of its size.

    `first` is a row and a column in the window, `last` the ones after it.
    """
    (top, left), (bottom, right) = tf.unstack(first, 2), tf.unstack(last, 2)
    rows: Any = images[..., top:bottom, :, :]
    rows = tf.concat([rows[..., :left, :], patch, rows[..., right:, :]], -2)
    pasted = tf.concat([images[..., :top, :, :], rows, images[..., bottom:, :, :]], -3)
    return tf.ensure_shape(pasted, images.shape)


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

    All images of a batch share one proportion, from Beta(alpha, alpha): at 0.2 most stay nearly the
    same, at 1 all proportions are equally likely.
    """
    kept = beta(seed, alpha)

    def blended(pair: Any) -> tf.Tensor:
        first, second = (tf.cast(images[index], tf.float32) for index in pair)
        return kept * first + (1 - kept) * second

    # Images that are blended one by one stay in the processor's cache.
    numbers: Any = tf.range(tf.shape(images)[0])
    spec = tf.TensorSpec(images.shape[1:], tf.float32)
    mixed: Any = tf.map_fn(blended, (numbers, numbers[::-1]), fn_output_signature=spec)
    return tf.ensure_shape(mixed, images.shape), _blend(labels, kept)


def cut_mix(
    images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """CutMix (arXiv:1905.04899): pastes a window from the batch in reverse order.

    All images of a batch share one window. Its share of the area is from Beta(alpha, alpha), and it
    is clipped at the border; labels are blended in proportion to the areas.
    """
    size = tf.shape(images)[1:3]
    sides = tf.cast(size, tf.float32) * tf.sqrt(1 - beta(seed, alpha))
    half = tf.cast(sides, tf.int32) // 2
    center = random_pixel(size, seed, 3)
    first, last = tf.maximum(center - half, 0), tf.minimum(center + half, size)
    area = tf.cast(tf.reduce_prod(last - first), tf.float32)
    kept = 1 - area / tf.cast(tf.reduce_prod(size), tf.float32)
    patch = tf.reverse(images[:, first[0] : last[0], first[1] : last[1]], [0])
    mixed = paste(images, first, last, patch)
    return tf.cast(mixed, tf.float32), _blend(labels, kept)


def either(mixup: float | None, cutmix: float | None) -> Mix | None:
    """Creates MixUp, CutMix, or a random choice of both by their alphas; None if neither is set."""
    alphas = ((mix_up, mixup), (cut_mix, cutmix))
    mixes = [partial(mix, alpha=alpha) for mix, alpha in alphas if alpha is not None]
    if len(mixes) < 2:
        return mixes[0] if mixes else None

    def mix(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        first, second = (partial(function, images, labels, seed) for function in mixes)
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


def rand_augment(num_layers: int, magnitude: float, size: int) -> Operation:
    """Creates RandAugment (arXiv:1909.13719), as in TensorFlow's Model Garden.

    It takes images in [0, 255] and returns uint8; magnitude 10 is a strength of 1. Each layer
    applies one operation of `operations`, or none: 17 choices with equal probability.
    """
    choices = [lambda image, seed: image, *operations(magnitude / 10, size).values()]

    def apply(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        image = image if image.dtype == tf.uint8 else to_uint8(image)
        for layer_seed in tf.unstack(tf.random.split(seed, num_layers)):
            choice = tf.random.stateless_uniform(
                [], fold_in(layer_seed, 0), 0, len(choices), tf.int32
            )
            branches = [partial(op, image, fold_in(layer_seed, 1)) for op in choices]
            image = tf.switch_case(choice, branches)
        return image

    return apply


def operations(strength: float, size: int) -> Mapping[str, Operation]:
    """Creates RandAugment's 16 operations by name, for uint8 images of a size in pixels.

    Shifts and holes are in pixels, whatever the size, down to 128 (the smallest in the paper);
    below that they shrink with it. It is the Model Garden's table of levels with its quirks:
    `solarize` inverts the whole image at strength 1, as its threshold of 256 is 0 in 8 bits.
    """
    scale = min(1.0, size / SMALLEST_IMAGE)
    factor = 1.8 * strength + 0.1
    mask = 256 - 2 ** (8 - min(8, max(1, int(4 * strength))))
    half, shift, shear = int(40 * scale * strength), 100 * scale * strength, 0.3 * strength
    threshold, addition = int(256 * strength) % 256, int(110 * strength)

    def inverted_from(image: Any, threshold: int) -> tf.Tensor:
        ones = tf.cast(image >= threshold, tf.uint8) * 255
        return tf.bitwise.bitwise_xor(image, ones)  # much faster than a choice by pixels

    def solarize_add(image: Any) -> tf.Tensor:
        added = tf.cast(image < 128, tf.uint8) * min(addition, 255)
        return image + tf.minimum(added, 255 - image)

    def signed(level: float, seed: tf.Tensor) -> tf.Tensor:
        return tf.where(tf.random.stateless_uniform([], seed) < 0.5, level, -level)

    return {
        "auto_contrast": lambda image, _: auto_contrast(image),
        "equalize": lambda image, _: equalize(image),
        "invert": lambda image, _: 255 - image,
        "rotate": lambda image, seed: rotate(image, signed(30 * strength, seed)),
        "posterize": lambda image, _: image & mask,
        "solarize": lambda image, _: inverted_from(image, threshold),
        "color": lambda image, _: interpolate(grayscale(image), image, factor),
        "contrast": lambda image, _: tf.image.adjust_contrast(image, factor),
        "brightness": lambda image, _: interpolate(tf.zeros_like(image), image, factor),
        "sharpness": lambda image, _: sharpness(image, factor),
        "shear_x": lambda image, seed: _shear(image, 1, signed(shear, seed)),
        "shear_y": lambda image, seed: _shear(image, 0, signed(shear, seed)),
        "translate_x": lambda image, seed: _shift(image, 1, signed(shift, seed)),
        "translate_y": lambda image, seed: _shift(image, 0, signed(shift, seed)),
        "cutout": partial(cutout, half=half),
        "solarize_add": lambda image, _: solarize_add(image),
    }


def auto_contrast(image: tf.Tensor) -> tf.Tensor:
    """Stretches each channel to [0, 255]; a channel of one value stays."""
    values: Any = tf.cast(image, tf.float32)
    # Rows first: over both axes at once, TensorFlow takes five times as long.
    low = tf.reduce_min(tf.reduce_min(values, 0), 0)
    high = tf.reduce_max(tf.reduce_max(values, 0), 0)
    scale = 255.0 / (high - low)
    stretched = _along_rows(lambda v, by, less: v * by - less, values, scale, low * scale)
    return tf.cond(
        tf.reduce_all(high > low),
        lambda: _clipped(stretched),
        lambda: tf.where(high > low, _clipped(stretched), image),
    )


def _along_rows(change: Callable[..., tf.Tensor], image: tf.Tensor, *channels: Any) -> tf.Tensor:
    """Computes with one value per channel, many times faster than by broadcasting three values."""
    shape = tf.shape(image)
    rows = tf.reshape(image, [-1, shape[-2] * 3])
    return tf.reshape(change(rows, *(tf.tile(c, shape[-2:-1]) for c in channels)), shape)


def equalize(image: tf.Tensor) -> tf.Tensor:
    """Flattens each channel's histogram, as PIL's `ImageOps.equalize`."""
    # The three channels' histograms and tables are parts of one.
    values: Any = _along_rows(lambda v, by: tf.cast(v, tf.int32) + by, image, 256 * tf.range(3))
    values = tf.reshape(values, [-1, 1])
    histogram: Any = tf.math.bincount(values[:, 0], minlength=3 * 256, maxlength=3 * 256)
    histogram = tf.reshape(histogram, [3, 256])
    # The number of pixels below the highest value, over 255.
    highest = tf.reduce_max(tf.where(histogram > 0, tf.range(256), 0), 1)
    step = (tf.size(values) // 3 - tf.gather(histogram, highest, batch_dims=1)) // 255
    step = step[:, None]
    ranks = tf.cumsum(histogram, 1, exclusive=True) + step // 2
    # PIL's table starts with 0; a step of 0 leaves the channel unchanged.
    ranks = tf.where(tf.range(256) > 0, ranks // tf.maximum(step, 1), 0)
    table = tf.cast(tf.where(step > 0, tf.minimum(ranks, 255), tf.range(256)), tf.uint8)
    # `gather_nd` finds a value in two thirds of the time of `gather`.
    return tf.reshape(tf.gather_nd(tf.reshape(table, [-1]), values), tf.shape(image))


def grayscale(image: tf.Tensor) -> tf.Tensor:
    """Returns an image's luminance in three channels, as `tf.image.rgb_to_grayscale` in one."""
    pixels = tf.reshape(tf.cast(image, tf.float32) * (1 / 255), [-1, 3])
    weights = tf.tile(tf.constant([[0.2989], [0.587], [0.114]]), [1, 3])
    return tf.reshape(tf.floor(tf.matmul(pixels, weights) * 255.5), tf.shape(image))


def rotate(image: tf.Tensor, degrees: tf.Tensor) -> tf.Tensor:
    """Rotates an image about its center, counterclockwise for positive degrees."""
    angle = degrees * (math.pi / 180)
    cos, sin = tf.cos(angle), tf.sin(angle)
    y, x = _coordinates(image)
    height, width = y[-1, 0], x[-1]
    columns = cos * x - sin * y + (width - (cos * width - sin * height)) / 2
    rows = sin * x + cos * y + (height - (sin * width + cos * height)) / 2
    return _moved(image, rows, columns)


def sharpness(image: tf.Tensor, factor: float) -> tf.Tensor:
    """Blends an image with its smoothed version; the border of one pixel stays.

    The smoothed pixels are rounded down, as in the Model Garden. They are exact here; the Model
    Garden's float32 sometimes falls just below an integer.
    """
    shape = tf.shape(image)
    flat = tf.reshape(image, [shape[0], -1])
    values: Any = tf.cast(flat, tf.float32)
    rows = values[:-2] + values[1:-1] + values[2:]
    center = values[1:-1, 3:-3]
    # A pixel weighs 5 of 13, each of its neighbors 1.
    smooth = tf.floor((rows[:, :-6] + rows[:, 3:-3] + rows[:, 6:] + 4 * center) / 13)
    inner = interpolate(smooth, center, factor)
    inner = tf.concat([flat[1:-1, :3], inner, flat[1:-1, -3:]], 1)
    return tf.reshape(tf.concat([flat[:1], inner, flat[-1:]], 0), shape)


def cutout(image: tf.Tensor, seed: tf.Tensor, half: int) -> tf.Tensor:
    """Grays a square of twice `half` pixels (arXiv:1708.04552), whose center is in the image."""
    size = tf.shape(image)[:2]
    center = random_pixel(size, seed, 0)
    first, last = tf.maximum(center - half, 0), tf.minimum(center + half, size)
    return paste(
        image, first, last, tf.fill([*tf.unstack(last - first, 2), 3], tf.constant(128, tf.uint8))
    )


def interpolate(start: tf.Tensor, end: tf.Tensor, factor: float) -> tf.Tensor:
    """Interpolates two images, or extrapolates for factors above 1, and clips to [0, 255]."""
    begin = tf.cast(start, tf.float32)
    return _clipped(begin + factor * (tf.cast(end, tf.float32) - begin))


def _clipped(values: Any) -> tf.Tensor:
    return tf.cast(tf.clip_by_value(values, 0, 255), tf.uint8)


def _shift(image: tf.Tensor, axis: int, shift: tf.Tensor) -> tf.Tensor:
    """Moves pixels along an axis, from `x + shift` to `x`; borders are reflected."""
    length = tf.shape(image)[axis]
    return tf.gather(
        image, _reflect(tf.cast(tf.range(length), tf.float32) + shift, length), axis=axis
    )


def _shear(image: tf.Tensor, axis: int, shear: tf.Tensor) -> tf.Tensor:
    """Moves pixels along an axis, from `x + shear * y` to `x`, for `y` along the other one."""
    y, x = _coordinates(image)
    return _moved(image, y, x + shear * y) if axis else _moved(image, y + shear * x, x)


def _coordinates(image: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the rows' and the columns' numbers, which broadcast."""
    y, x = (tf.cast(tf.range(tf.shape(image)[axis]), tf.float32) for axis in (0, 1))
    return y[:, None], x


def _moved(image: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Returns an image of the nearest pixels; borders are reflected.

    As ImageProjectiveTransformV3 with NEAREST and REFLECT, in less than half of its time.
    """
    height, width = tf.unstack(tf.shape(image)[:2])
    places = _reflect(rows, height) * width + _reflect(columns, width)
    moved = tf.gather_nd(tf.reshape(image, [-1, 3]), places[..., None])
    return tf.reshape(moved, tf.shape(image))


def _reflect(places: Any, length: tf.Tensor) -> tf.Tensor:
    """Rounds coordinates, and reflects those outside of `0` to `length - 1`."""
    size: Any = tf.cast(length, tf.float32)
    places = tf.abs(places + 0.5)
    places -= 2 * size * tf.floor(places / (2 * size))  # much faster than the remainder
    places = size - tf.abs(size - places)
    return tf.cast(tf.minimum(places, size - 1), tf.int32)
