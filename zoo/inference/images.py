"""Images as arguments: paths of image files, Pillow images, or pixels."""

import os
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from zoo.backend import check_process
from zoo.data.crops import check_header, decode
from zoo.data.errors import reason
from zoo.data.image_files import is_pillow, to_jpeg_or_png, to_png
from zoo.errors import printable, require, shorten
from zoo.files import why_no_file

T = TypeVar("T")
Image = Any  # the path of a file, a Pillow image, or pixels


def several(images: Any) -> tuple[list[Image], bool]:
    """Returns images as a list, and whether a single image was passed."""
    is_file = isinstance(images, str | os.PathLike)
    if is_file or is_pillow(images) or getattr(images, "ndim", None) == 3:
        return [images], True
    try:
        if isinstance(images, Mapping | Set | bytes):  # iterable, but not a sequence of images
            raise TypeError
        return list(images), False
    except TypeError:
        raise ValueError(f"expected images. Received: {shorten(repr(images), 200)}") from None


def read_pixels(image: Image) -> np.ndarray:
    """Decodes an image, upright on a white background: uint8 `(height, width, 3)`, RGB."""
    return read_image(image, lambda content: decode(content).numpy(), np.asarray)


def read_image(
    image: Image, from_file: Callable[[bytes], T], from_pixels: Callable[[np.ndarray], T]
) -> T:
    """Returns `from_file` of JPEG or PNG content, or `from_pixels` of an array.

    Raises `ValueError` with the name of an unreadable file.
    """
    check_process()
    if isinstance(image, str | os.PathLike):
        try:
            if why := why_no_file(image):  # reading a pipe would block
                raise ValueError(why)
            content = to_jpeg_or_png(Path(image).read_bytes())
            check_header(content)
            return from_file(content)
        except (OSError, ValueError, tf.errors.OpError) as error:
            name = shorten(printable(image), 200)
            raise ValueError(f"unreadable image: {name} ({reason(error)})") from None
    if is_pillow(image):
        try:
            return from_file(to_png(image))
        except (OSError, ValueError) as error:  # Pillow reads files lazily
            raise ValueError(f"unreadable image of Pillow: {printable(error)}") from None
    shape: Any = getattr(image, "shape", ())
    is_image = isinstance(image, np.ndarray) and image.dtype == "uint8" and image.ndim == 3
    require(
        is_image and shape[2] == 3 and 0 not in shape,
        "expected the path of an image, an image of Pillow, or a uint8 array of shape (height, "
        "width, 3)",
        f"a {type(image).__name__} of {getattr(image, 'dtype', 'no dtype')}, shape={tuple(shape)}",
    )
    return from_pixels(image)
