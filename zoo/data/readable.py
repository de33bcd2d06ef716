"""Checks that image files can be decoded."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from zoo.data.image_files import to_jpeg_or_png
from zoo.errors import needs_extra, printable, some
from zoo.files import why_no_file


@dataclass(frozen=True)
class ImageFile:
    """An image file that was read once.

    Attributes:
        path: Path of the file.
        why: Reason why it is unreadable; empty if it is readable.
        digest: Hash of its contents.
        height: Height in pixels, as stored.
        width: Width in pixels, as stored.
    """

    path: str
    why: str = ""
    digest: bytes = b""
    height: int = 0
    width: int = 0


def check_readable(paths: Sequence[str]) -> None:
    """Reads every file once, so that none fails halfway through the work.

    Raises:
        ValueError: If files are no images, or broken; names up to five of them.
    """
    refuse_unreadable(read_files(paths))


def refuse_unreadable(files: Sequence[ImageFile]) -> None:
    """Raises the error of `check_readable`."""
    broken = [f"{printable(file.path)} ({file.why})" for file in files if file.why]
    if broken:
        raise ValueError(f"unreadable image files: {some(broken, 5)}")


def read_files(paths: Sequence[str]) -> list[ImageFile]:
    """Reads image files in parallel, as a whole: a header does not show that a file is cut off."""
    with needs_extra("train"):
        from rich.progress import track

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(track(pool.map(_read, paths), "Checking images", total=len(paths)))


def _read(path: str) -> ImageFile:
    # `--help` comes without TensorFlow.
    from zoo.data.crops import decode_small, stored_size

    why = why_no_file(path)  # reading a pipe would never end
    if why:
        return ImageFile(path, why)
    try:
        content = Path(path).read_bytes()
        image = to_jpeg_or_png(content)
        decode_small(image)
        return ImageFile(path, "", hashlib.blake2b(content).digest(), *stored_size(image))
    except Exception as error:  # decoders raise many kinds
        return ImageFile(path, printable(error))
