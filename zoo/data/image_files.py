"""Image files: formats, conversion to JPEG or PNG."""

import sys
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

from zoo.errors import needs_extra, printable, some

JPEG, PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"  # their first bytes
CONVERTED = ("BMP", "GIF", "TIFF", "WEBP")  # formats that Pillow converts to PNG
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def is_pillow(image: Any) -> bool:
    """Returns whether this is an image of Pillow, without importing it."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(image, pillow.Image)


def to_png(image: Any) -> bytes:
    """Encodes the first frame of an image of Pillow as PNG, upright by its EXIF orientation.

    Pixels of more than 8 bits have an unknown scale and are refused.
    """
    from PIL import ImageOps

    if 0 in image.size:
        raise ValueError("no pixels")
    if image.mode[0] in "IF":
        raise ValueError(f"pixels of more than 8 bits (Pillow's mode {image.mode})")
    mode = "RGBA" if image.has_transparency_data else "RGB"
    file = BytesIO()
    ImageOps.exif_transpose(image).convert(mode).save(file, "PNG", compress_level=1)
    return file.getvalue()


def to_jpeg_or_png(content: bytes) -> bytes:
    """Returns JPEG and PNG files as they are, and converts `CONVERTED` to PNG without loss."""
    if content.startswith((JPEG, PNG)):
        return content
    with needs_extra("train"):
        from PIL import Image, UnidentifiedImageError
    try:
        with Image.open(BytesIO(content), formats=CONVERTED) as image:
            return to_png(image)
    except UnidentifiedImageError:
        expected = ", ".join(("JPEG", "PNG", *CONVERTED))
        raise ValueError(f"not an image of {expected}") from None
    except Exception as error:  # Pillow's decoders raise many kinds
        raise ValueError(str(error)) from None


def divide(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Divides files into images, by their suffixes, and other files, both sorted.

    Hidden files are left out, and so are folders, pipes and the like with other suffixes.
    """
    shown = [path for path in sorted(paths, key=str) if not path.name.startswith(".")]
    images = [path for path in shown if path.suffix.lower() in SUFFIXES]
    others = [path for path in shown if path.suffix.lower() not in SUFFIXES]
    return images, [path for path in others if path.is_file()]


def name_left_out(others: list[Path]) -> None:
    """Prints one line on stderr about files of other kinds, if there are any."""
    if others:
        print(
            f"{len(others)} files left out, which are none of {', '.join(SUFFIXES)}: "
            f"{some(map(printable, others))}",
            file=sys.stderr,
        )
