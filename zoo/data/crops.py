"""Preprocessing of images: decoding, EXIF orientation, white background, crops."""

import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.data.errors import in_one_line, no_autograph, reason
from zoo.data.image_files import JPEG, PNG, TO_8_BITS, to_jpeg_or_png

MAX_PIXELS = 2**29 // 3  # Pillow's limit for decompression bombs
HEAD = 2**16  # bytes that hold the EXIF orientation and the transparency of a file
# A PNG file with an alpha channel, or with a transparent color; `\C` is any byte.
TRANSPARENT = r"\CPNG(\C{21}[\x04\x06]|\C*tRNS)\C*"
DEEP_PNG = r"\CPNG\C{20}\x10"  # the first bytes of a PNG file of 16 bits
ORIENTATION = 0x0112  # EXIF tag
# Whether rows and columns are reversed in EXIF's orientations 1 to 4; in 5 to 8, the image is
# transposed first.
REVERSED = ((False, False), (False, True), (True, True), (True, False))
ACCURATE = "INTEGER_ACCURATE"  # method of the inverse DCT, as in Pillow
KERNELS = {"bilinear": "triangle", "bicubic": "keyscubic", "lanczos": "lanczos3"}

# Takes the shape (height, width, channels) of an image; returns top, left, height and width.
Window = Callable[[tf.Tensor], tf.Tensor]


def decode_center(encoded: tf.Tensor | bytes, preprocessing: Preprocessing) -> tf.Tensor:
    """Decodes a file and crops its center, as in evaluation, prediction and exports.

    It works in graphs, too. The crop is float32 in [0, 255]. Of most JPEG files, little more than
    the crop is decoded.
    """

    def part() -> tf.Tensor:
        def take(window: tf.Tensor) -> tf.Tensor:
            return tf.image.decode_and_crop_jpeg(encoded, window, 3, dct_method=ACCURATE)

        return _center(tf.image.extract_jpeg_shape(encoded)[:2], take, preprocessing)

    def whole() -> tf.Tensor:
        return resize_center(decode(encoded), preprocessing)

    return tf.cond(_is_upright_jpeg(encoded), part, whole)


def resize_center(image: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """Resizes an image and crops its center, at the same place as `preprocessing` with Pillow.

    The image is uint8 of shape `(height, width, 3)`, the crop float32 in [0, 255].
    """
    size, known = preprocessing.image_size, tuple(image.shape[:2])
    if known == (size, size) and size == preprocessing.resized(size, size, size):
        return tf.cast(image, tf.float32)
    return _center(tf.shape(image)[:2], lambda window: cut(image, lambda _: window), preprocessing)


def _center(
    shape: tf.Tensor, take: Callable[[tf.Tensor], tf.Tensor], preprocessing: Preprocessing
) -> tf.Tensor:
    """Crops the center of an image of a shape; `take` returns a window of its pixels."""
    size = preprocessing.image_size
    resized = preprocessing.resized(shape, tf.reduce_min(shape), tf.reduce_max(shape))
    scale, first = resized / shape, tf.round((resized - size) / 2)
    # The widest kernel reaches 3 pixels; decoding needs 2 more for colors at half resolution.
    reach = 3 / tf.minimum(scale, 1) + 2
    limits = tf.zeros_like(scale), tf.cast(shape, scale.dtype)
    begin = tf.clip_by_value(tf.floor(first / scale - reach), *limits)
    end = tf.clip_by_value(tf.math.ceil((first + size) / scale + reach), *limits)
    part = take(tf.cast(tf.concat([begin, end - begin], 0), tf.int32))
    return _scale(part, size, scale, first - begin * scale, preprocessing.interpolation)


def resize_window(image: tf.Tensor, resize: str, window: Window, size: int) -> tf.Tensor:
    """Resizes a window of an image that is padded or squashed to a square: `(size, size, 3)`."""
    shape = tf.shape(image)[:2]
    side = tf.reduce_max(shape)
    square = tf.stack([side, side])
    inner = square if resize == "squash" else shape  # the image in the square
    begin, extent = tf.split(window(tf.stack([side, side, 3])), 2)
    scale = size / extent
    first = tf.cast(begin - (square - inner) // 2, scale.dtype) * scale
    return _scale(image, size, scale * (inner / shape), first, "bilinear")


def _scale(image: Any, size: int, scale: Any, first: Any, interpolation: str) -> tf.Tensor:
    """Scales an image and returns `size` x `size` pixels from `first` on; padding is black."""
    scales, places = (tf.broadcast_to(tf.cast(value, tf.float32), [2]) for value in (scale, -first))
    height, width = tf.unstack(tf.shape(image)[:2])
    # TensorFlow is fast along an axis if the other one is one of many channels, not of three, and
    # transposes matrices fast: (height, width x 3), then (width, 3 x size).
    for axis, length, others in ((0, height, width * 3), (1, width, size)):
        scaled = tf.raw_ops.ScaleAndTranslate(
            images=tf.reshape(image, [1, length, 1, -1]),
            size=[size, 1],
            scale=tf.stack([scales[axis], 1.0]),
            translation=tf.stack([places[axis], 0.0]),
            kernel_type=KERNELS[interpolation],
            antialias=True,
        )
        image = tf.transpose(tf.reshape(scaled, [-1, others]))
    image = tf.reshape(image, [size, size, 3])
    return tf.clip_by_value(image, 0, 255)  # bicubic overshoots


def decode(encoded: tf.Tensor | bytes) -> tf.Tensor:
    """Decodes a file as a viewer shows it: upright by EXIF, on white where it is transparent.

    The bytes are of a JPEG, PNG, GIF or BMP file; the image is uint8 `(height, width, 3)`. 16-bit
    PNG files raise an error.
    """
    eight = tf.debugging.Assert(~is_deep_png(encoded), [f"16-bit PNG; {TO_8_BITS}"])
    with tf.control_dependencies([eight]):
        encoded = tf.identity(encoded)

    def jpeg() -> tf.Tensor:
        return tf.io.decode_jpeg(encoded, 3, dct_method=ACCURATE)

    def on_white() -> tf.Tensor:
        image = tf.cast(tf.io.decode_png(encoded, 4), tf.uint16)
        color, alpha = image[..., :3], image[..., 3:]
        return tf.cast(255 - ((255 - color) * alpha + 127) // 255, tf.uint8)

    def other() -> tf.Tensor:
        return tf.io.decode_image(encoded, 3, expand_animations=False)

    def upright() -> tf.Tensor:
        turned = tf.cond(number < 4, lambda: stored, transposed)
        dims = tf.gather([(*rows_and_columns, False) for rows_and_columns in REVERSED], number % 4)
        return tf.raw_ops.Reverse(tensor=turned, dims=dims)

    def transposed() -> tf.Tensor:
        # float16 is exact here; for integers TensorFlow warns on stderr that oneDNN lacks AVX-512.
        return tf.cast(tf.transpose(tf.cast(stored, tf.float16), [1, 0, 2]), tf.uint8)

    transparent = tf.strings.regex_full_match(tf.strings.substr(encoded, 0, HEAD), TRANSPARENT)
    stored = tf.case([(tf.image.is_jpeg(encoded), jpeg), (transparent, on_white)], other)
    number: Any = orientation(encoded) - 1
    image = tf.cond(number > 0, upright, lambda: stored)
    return tf.ensure_shape(image, [None, None, 3])


def is_deep_png(encoded: tf.Tensor | bytes) -> Any:
    """Returns whether each file is a 16-bit PNG file, of which decoders drop the lower 8 bits."""
    return tf.strings.regex_full_match(tf.strings.substr(encoded, 0, 25), DEEP_PNG)


def orientation(encoded: tf.Tensor | bytes) -> tf.Tensor:
    """Returns the EXIF orientation of a JPEG or PNG file, 1 to 8; 1 without EXIF."""
    head = tf.strings.substr(encoded, 0, HEAD)
    mark = tf.where(tf.image.is_jpeg(encoded), r"Exif\x00\x00\C*", r"\C\CeXIf\C*")
    begin = tf.strings.length(tf.strings.regex_replace(head, mark, ""))

    def find() -> tf.Tensor:
        tiff = tf.strings.substr(head, begin + 6, HEAD)
        # The header points to entries of six words each: tag, type, count (2), value (2). Zeros
        # pad the file, because it may point beyond its end.
        little, big = (tf.io.decode_raw(tiff, tf.uint16, end, 2 * HEAD) for end in (True, False))
        words = tf.cast(tf.where(tf.strings.substr(tiff, 0, 1) == "I", little, big), tf.int32)
        first = (words[2] + words[3]) // 2 + 1  # one of the two is 0
        end = first + 6 * words[first - 1]
        values = words[first + 4 : end : 6]
        tags = words[first:end:6][: tf.size(values)]
        known = (tags == ORIENTATION) & (values >= 1) & (values <= 8)
        return tf.concat([values[known], [1]], 0)[0]

    return tf.cond(begin < tf.strings.length(head), find, lambda: tf.constant(1))


def convert(encoded: tf.Tensor) -> tf.Tensor:
    """Converts the bytes of an image file by `to_jpeg_or_png`, in a graph that calls Python."""

    def by_pillow() -> tf.Tensor:
        content: Any = tf.numpy_function(to_jpeg_or_png, [encoded], tf.string, stateful=False)
        return tf.ensure_shape(content, [])

    is_png = tf.strings.substr(encoded, 0, len(PNG)) == PNG
    return tf.cond(tf.image.is_jpeg(encoded) | is_png, lambda: encoded, by_pillow)


def decode_window(encoded: tf.Tensor, window: Window) -> tf.Tensor:
    """Decodes a window of an image; of most JPEG files, little more than the window is decoded."""

    def part() -> tf.Tensor:
        chosen = window(tf.image.extract_jpeg_shape(encoded))
        return tf.image.decode_and_crop_jpeg(encoded, chosen, channels=3)

    def whole() -> tf.Tensor:
        return cut(decode(encoded), window)

    return tf.cond(_is_upright_jpeg(encoded), part, whole)


def _is_upright_jpeg(encoded: tf.Tensor | bytes) -> Any:
    return tf.image.is_jpeg(encoded) & (orientation(encoded) == 1)


def cut(image: Any, window: Window) -> tf.Tensor:
    """Returns a window of an image."""
    top, left, height, width = tf.unstack(window(tf.shape(image)), 4)
    return image[top : top + height, left : left + width]


def check_header(content: bytes) -> tuple[int, int]:
    """Returns height and width of a JPEG or PNG file, unless its pixels take too much memory."""
    if not content.startswith((JPEG, PNG)):
        raise ValueError("not a JPEG or PNG image")
    if content.startswith(PNG):
        height, width = int.from_bytes(content[20:24]), int.from_bytes(content[16:20])
    else:
        height, width, _ = tf.image.extract_jpeg_shape(content).numpy().tolist()
    if height * width > MAX_PIXELS:
        raise ValueError(f"{width} x {height} pixels, more than {MAX_PIXELS:,}")
    return height, width


def check_content(content: bytes) -> tuple[int, int]:
    """Checks faster than `decode` that a file can be decoded, a JPEG file at 1/8 of its size.

    Returns height and width, and raises the errors of `check_header` or one with the reason.
    """
    try:
        size = check_header(content)
        tf.io.decode_jpeg(content, channels=3, ratio=8)  # decodes PNG files, too
        return size
    except tf.errors.OpError as error:
        raise ValueError(reason(error)) from None


def attempt(
    read: Callable[..., tf.Tensor], inputs: Any, names: tf.Tensor, skip: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Reads images of one size, and returns a batch of them, and which ones were readable.

    `read` is called with one element of each input at a time. An unreadable image is named on
    stderr and becomes black; without `skip`, it is named in an error. TensorFlow graphs have no
    try and except, but a dataset of one element can ignore errors: all inputs are tried at once,
    and one by one only if that fails.
    """
    once = tf.data.Dataset.from_tensors(0)
    spec: Any = tf.data.Dataset.from_tensor_slices(inputs).map(no_autograph(read)).element_spec

    def either(first: Callable[[], Any], second: Callable[[], Any]) -> Any:
        ways = [once.map(no_autograph(lambda _, way=way: way())) for way in (first, second)]
        return ways[0].ignore_errors().concatenate(ways[1]).take(1).get_single_element()

    def read_one(value: tuple[Any, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        def unreadable() -> tuple[tf.Tensor, tf.Tensor]:
            message = tf.strings.join(["data: unreadable image: ", in_one_line(value[1])])
            if skip:
                said = tf.print(message, output_stream=sys.stderr)
            else:
                said = tf.debugging.Assert(tf.constant(False), [message], summarize=1)
            with tf.control_dependencies([said]):
                return tf.zeros(spec.shape, spec.dtype), tf.constant(False)

        return either(lambda: (read(*value[0]), tf.constant(True)), unreadable)

    def together() -> tuple[tf.Tensor, tf.Tensor]:
        images: Any = tf.map_fn(lambda value: read(*value), inputs, fn_output_signature=spec)
        return images, tf.ones_like(names, tf.bool)

    def singly() -> tuple[tf.Tensor, tf.Tensor]:
        readable = tf.TensorSpec([], tf.bool)
        return tf.map_fn(read_one, (inputs, names), fn_output_signature=(spec, readable))

    return either(together, singly)
