"""Random changes of one training image; the same seed gives the same change."""

import tensorflow as tf


def random_shift(
    image: tf.Tensor, seed: tf.Tensor, size: int, fraction: float = 0.125
) -> tf.Tensor:
    """Shifts an image, filling with black; for digits, which a flip would turn into others.

    Args:
        image: Image of shape `(size, size, 3)`.
        seed: Two integers.
        size: Height and width of the image in pixels.
        fraction: Largest shift in both directions, as a part of the size. Defaults to 1/8.

    Returns:
        Image of the same shape.
    """
    padding = round(size * fraction)
    image = tf.pad(image, [[padding, padding], [padding, padding], [0, 0]])
    return tf.image.stateless_random_crop(image, (size, size, 3), seed)


def random_crop_and_flip(image: tf.Tensor, seed: tf.Tensor, size: int) -> tf.Tensor:
    """Cuts out a random part, resizes it and flips half of all images left to right.

    The usual ImageNet training crop: 8 to 100 % of the area, aspect ratio 3/4 to 4/3.

    Args:
        image: Image of shape `(height, width, 3)`.
        seed: Two integers.
        size: Height and width of the result in pixels.

    Returns:
        Image of shape `(size, size, 3)`, float32 in the range of `image`.
    """
    begin, shape, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.shape(image),
        tf.zeros((1, 0, 4)),
        seed,
        min_object_covered=0.0,
        area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3),
        use_image_if_no_bounding_boxes=True,
    )
    image = tf.image.resize(tf.slice(image, begin, shape), (size, size))
    return tf.image.stateless_random_flip_left_right(image, seed)
