"""Random changes of one training image; the same seed gives the same change."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from zoo.errors import needs_extra

SMALLEST_IMAGE = 128  # pixels, in the paper: Table 20

# Another seed, for a choice that is independent of the others. TensorFlow annotates an int.
fold_in: Any = tf.random.fold_in


def random_shift(
    image: tf.Tensor, seed: tf.Tensor, size: int, fraction: float = 0.125
) -> tf.Tensor:
    """Shifts an image `(size, size, 3)` in both directions, by up to a fraction of its size.

    The rest is black. For digits, which a flip would turn into others. Seeds are two integers.
    """
    padding = round(size * fraction)
    image = tf.pad(image, [[padding, padding], [padding, padding], [0, 0]])
    return tf.image.stateless_random_crop(image, (size, size, 3), seed)


def random_window(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Chooses a part of an image of shape (height, width, channels): top, left, height and width.

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


def rand_augment(
    layers: int, magnitude: float, size: int
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Returns the RandAugment of TensorFlow's Model Garden, on the scale of the paper.

    Args:
        layers: Operations per image.
        magnitude: Their strength; 10 is nominally the highest.
        size: Height and width of the images in pixels. Shifts and holes are in pixels, whatever the
            size, down to 128 (the smallest in the paper); below that they shrink with it.

    Returns:
        Function of an image in [0, 255] and a seed of two integers.

    Raises:
        ImportError: If tf-models-official is not installed.
    """
    with needs_extra("train"):
        from official.vision.ops import augment
    scale = min(1.0, size / SMALLEST_IMAGE)
    policy = augment.RandAugment(
        layers, magnitude, cutout_const=40 * scale, translate_const=100 * scale
    )

    def apply(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        # The policy draws numbers with `tf.random.uniform`, which goes on from those drawn before:
        # after an interruption, or decoded in parallel, the same image would change otherwise.
        augment.tf = _Tensorflow(seed)
        try:
            return policy.distort(image)
        finally:
            augment.tf = tf

    return apply


class _Tensorflow:
    """TensorFlow, but `random.uniform` draws numbers that follow from a seed."""

    def __init__(self, seed: tf.Tensor) -> None:
        calls = itertools.count()

        def uniform(shape, minval=0, maxval=None, dtype=tf.float32) -> tf.Tensor:
            own_seed = fold_in(seed, next(calls))
            return tf.random.stateless_uniform(shape, own_seed, minval, maxval, dtype)

        self.random = SimpleNamespace(uniform=uniform)

    def __getattr__(self, name: str) -> Any:
        return getattr(tf, name)
