"""Decoding of the part of an image that is looked at, and no more."""

import sys
from collections.abc import Callable
from functools import partial

import tensorflow as tf

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.data.errors import in_one_line, reason
from zoo.data.sources import no_autograph

MAX_PIXELS = 2**29 // 3  # beyond, Pillow, too, expects a decompression bomb
CENTRE_CROP = 0.875  # part of the shorter side that evaluation looks at, as usual for ImageNet

# Takes the shape (height, width, channels) of an image; returns top, left, height and width.
Window = Callable[[tf.Tensor], tf.Tensor]


def centre_window(shape: tf.Tensor, crop_fraction: float = CENTRE_CROP) -> tf.Tensor:
    """Returns the central square of a part of the shorter side, as top, left, height, width.

    With the resizing after it, this is the same as resizing the shorter side to
    `size / crop_fraction` and cropping the centre, but it resizes fewer pixels.

    Args:
        shape: Height, width and channels of an image.
        crop_fraction: That part, above 0 and up to 1. Defaults to 0.875.
    """
    height, width = shape[0], shape[1]
    side = tf.cast(crop_fraction * tf.cast(tf.minimum(height, width), tf.float32), tf.int32)
    side = tf.maximum(side, 1)
    return tf.stack([(height - side) // 2, (width - side) // 2, side, side])


def resize_centre(image: tf.Tensor, size: int) -> tf.Tensor:
    """Cuts the central square out of an image and resizes it.

    Args:
        image: Image of shape `(height, width, 3)`.
        size: Height and width of the result in pixels.
    """
    window = centre_window(tf.shape(image))
    square = tf.image.crop_to_bounding_box(image, window[0], window[1], window[2], window[3])
    return resize_square(square, Preprocessing(size, CENTRE_CROP, "bilinear"))


def resize_square(square: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """Resizes what was cut out.

    Args:
        square: Image of shape `(height, width, 3)`.
        preprocessing: Size and interpolation.

    Returns:
        float32 image of that size, in [0, 255].
    """
    size = (preprocessing.image_size, preprocessing.image_size)
    image = tf.image.resize(square, size, preprocessing.interpolation, antialias=True)
    return tf.clip_by_value(image, 0, 255)  # bicubic goes beyond


def decode_centre(encoded: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """Decodes what a model sees of a photograph when it is evaluated.

    Args:
        encoded: Bytes of a JPEG, PNG, GIF or BMP file.
        preprocessing: Size, part of the shorter side, and interpolation.

    Returns:
        float32 image of that size, in [0, 255].
    """
    window = partial(centre_window, crop_fraction=preprocessing.crop_fraction)
    return resize_square(decode_window(encoded, window), preprocessing)


def decode_window(encoded: tf.Tensor, window: Window) -> tf.Tensor:
    """Decodes a part of an image; of a JPEG, little more than that part.

    Args:
        encoded: Bytes of a JPEG, PNG, GIF or BMP file.
        window: Chooses the part.

    Returns:
        uint8 image of the window's height and width and 3 channels.
    """

    def jpeg() -> tf.Tensor:
        part = window(tf.image.extract_jpeg_shape(encoded))
        return tf.image.decode_and_crop_jpeg(encoded, part, channels=3)

    def other() -> tf.Tensor:
        image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
        part = window(tf.shape(image))
        return tf.image.crop_to_bounding_box(image, part[0], part[1], part[2], part[3])

    return tf.cond(tf.image.is_jpeg(encoded), jpeg, other)


def decode_small(content: bytes) -> tf.Tensor:
    """Decodes an image, a JPEG at 1/8 of its size: fails where `decode_window` does, but sooner.

    Args:
        content: Bytes of a JPEG or PNG file.

    Raises:
        ValueError: If it cannot be decoded, or has too many pixels.
    """
    png = content.startswith(b"\x89PNG")
    try:
        if png:
            height, width = (int.from_bytes(content[i : i + 4]) for i in (20, 16))
        else:
            height, width, _ = tf.image.extract_jpeg_shape(content).numpy().tolist()
        if height * width > MAX_PIXELS:
            raise ValueError(f"{width} x {height} pixels, more than {MAX_PIXELS:,}")
        if png:
            return tf.io.decode_png(content, channels=3)
        return tf.io.decode_jpeg(content, channels=3, ratio=8)
    except tf.errors.OpError as error:
        raise ValueError(reason(error)) from None


def attempt(
    read: Callable[[], tf.Tensor], name: tf.Tensor, skip: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Reads an image; one that fails is named.

    TensorFlow has no try and except, but data sets of one element that leave errors out.

    Args:
        read: Returns the uint8 image, or fails.
        name: What to call it.
        skip: Whether it is named on stderr and 1x1 black pixel is returned, or the error is raised.

    Returns:
        The image, and whether it could be read.
    """

    @no_autograph
    def try_it(_: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return read(), tf.constant(True)

    @no_autograph
    def otherwise(_: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        message = tf.strings.join(["data: unreadable image: ", in_one_line(name)])
        if skip:
            told = tf.print(message, output_stream=sys.stderr)
        else:
            told = tf.debugging.Assert(tf.constant(False), [message], summarize=1)
        with tf.control_dependencies([told]):
            return tf.zeros([1, 1, 3], tf.uint8), tf.constant(False)

    once = tf.data.Dataset.from_tensors(0)
    tried = once.map(try_it).ignore_errors()
    image, readable = tried.concatenate(once.map(otherwise)).take(1).get_single_element()
    return tf.ensure_shape(image, [None, None, 3]), readable
