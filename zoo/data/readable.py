"""Checks that image files can be decoded."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from zoo.data.image_files import to_jpeg_or_png
from zoo.errors import needs_extra, printable, some
from zoo.files import why_no_file


class ImageFile(NamedTuple):
    """An image file that was read once, and why it is unreadable: "" if it is readable.

    `digest` is a hash of its contents; height and width are in pixels, as stored. `label` is the
    index of its class, where there are classes.
    """

    path: str
    why: str = ""
    digest: bytes = b""
    height: int = 0
    width: int = 0
    label: int = 0


def check_readable(paths: Sequence[str], skip: bool = False) -> list[ImageFile]:
    """Reads image files in parallel, as a whole: a header does not show that a file is cut off.

    Unless it should `skip` them, raises an error that names up to five unreadable files.
    """
    with needs_extra("train"):
        from rich.progress import track

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        files = list(track(pool.map(_read, paths), "Checking images", total=len(paths)))
    broken = [f"{printable(file.path)} ({file.why})" for file in files if file.why]
    if broken and not skip:
        raise ValueError(f"unreadable image files: {some(broken, 5)}")
    return files


def _read(path: str) -> ImageFile:
    # `--help` comes without TensorFlow.
    from zoo.data.crops import check_content

    try:
        if why := why_no_file(path):  # reading a pipe would never end
            raise ValueError(why)
        content = Path(path).read_bytes()
        size = check_content(to_jpeg_or_png(content))
        return ImageFile(path, "", hashlib.blake2b(content).digest(), *size)
    except Exception as error:  # decoders raise many kinds
        return ImageFile(path, printable(error))
