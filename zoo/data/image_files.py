"""Image files: formats, conversion to JPEG or PNG."""

import os
import sys
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

from zoo.errors import needs_extra, printable, some
from zoo.files import is_litter, why_pointer

JPEG, PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"  # their first bytes
# JPEG markers that precede height and width.
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
SCAN, SCANS = b"\xff\xda", 30  # progressive files have about ten scans, each over all pixels
UNKNOWN_PIXELS = 5 * 10**7  # assumed for JPEG files with other bytes between their segments
CONVERTED = ("BMP", "GIF", "TIFF", "WEBP")  # formats that Pillow converts to PNG
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
BITS_PER_SAMPLE, SAMPLE_FORMAT = 258, 339  # tags of TIFF
TO_8_BITS = "scale it to 8 bits first, such as np.uint8(pixels / largest * 255)"


class DeepPixelsError(ValueError):
    """Pixels of more than 8 bits, or signed ones, whose scale is unknown."""


def is_pillow(image: Any) -> bool:
    """Returns whether this is a Pillow image, without importing Pillow."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(image, pillow.Image)


def to_png(image: Any) -> bytes:
    """Encodes the first frame of an image of Pillow as PNG, upright by its EXIF orientation.

    Pixels of more than 8 bits have an unknown scale and are refused.
    """
    from PIL import ImageOps

    if 0 in image.size:
        raise ValueError("no pixels")
    # Pillow silently converts 16-bit color and signed pixels to 8 bits.
    tags, stored = getattr(image, "tag_v2", {}), str(getattr(image, "tile", ""))
    bits, kinds = (tags.get(tag, (1,)) for tag in (BITS_PER_SAMPLE, SAMPLE_FORMAT))
    if (
        image.mode[0] in "IF"
        or ";16" in stored.replace("BGR;16", "")
        or max(bits) > 8
        or not {*kinds} <= {1, 4}
    ):
        raise DeepPixelsError(
            f"pixels signed or of more than 8 bits (Pillow's mode {image.mode}); {TO_8_BITS}"
        )
    mode = "RGBA" if image.has_transparency_data else "RGB"
    file = BytesIO()
    ImageOps.exif_transpose(image).convert(mode).save(file, "PNG", compress_level=1)
    return file.getvalue()


def to_jpeg_or_png(content: bytes) -> bytes:
    """Returns JPEG and PNG files as they are, and converts `CONVERTED` to PNG without loss.

    Raises `DeepPixelsError` if pixels have more than 8 bits.
    """
    if content.startswith((JPEG, PNG)):
        if content.startswith(PNG) and content[24:25] == b"\x10":
            raise DeepPixelsError(f"16-bit PNG; {TO_8_BITS}")
        return content
    with needs_extra("train"):
        from PIL import Image, UnidentifiedImageError
    try:
        with Image.open(BytesIO(content), formats=CONVERTED) as image:
            return to_png(image)
    except UnidentifiedImageError:
        expected = ", ".join(("JPEG", "PNG", *CONVERTED))
        raise ValueError(why_pointer(content) or f"not an image of {expected}") from None
    except DeepPixelsError:
        raise
    except Exception as error:  # Pillow's decoders raise many kinds
        raise ValueError(str(error)) from None


def announced_pixels(content: bytes) -> int:
    """Returns the pixel count in an image file's header; 0 for other files and cut-off headers."""
    if content.startswith(PNG):
        return int.from_bytes(content[16:20]) * int.from_bytes(content[20:24])
    if content.startswith((b"GIF8", b"BM")):
        begin, size = (6, 2) if content.startswith(b"G") else (18, 4)
        width, height = (content[at : at + size] for at in (begin, begin + size))
        return int.from_bytes(width, "little") * int.from_bytes(height, "little")
    return _jpeg_pixels(content) if content.startswith(JPEG) else 0


def _jpeg_pixels(content: bytes) -> int:
    begin = 2
    for _ in range(1000):  # segments of metadata
        head = content[begin : begin + 9]
        if len(head) < 9:
            return 0
        if head[0] != 0xFF:
            break
        if head[1] in FRAMES:
            pixels = int.from_bytes(head[5:7]) * int.from_bytes(head[7:9])
            return pixels * (1 + content.count(SCAN) // SCANS)
        # Bytes 0xff may fill the space before a marker.
        begin += 1 if head[1] == 0xFF else 2 + int.from_bytes(head[2:4])
    return UNKNOWN_PIXELS  # decoders search for the frame


# Kinds of notes on the files of a folder.
HIDDEN = "hidden or system files and folders left out"
OTHERS = f"files left out, which are none of {', '.join(SUFFIXES)}"
LINKS = "links left out, which lead nowhere or to folders that are read already"
BESIDE = "images left out, which lie next to the folders of classes"
NESTED = "images of sub-folders, which get the class of the folder above"
Notes = dict[str, set[Path]]


def find_images(places: Iterable[Path], notes: Notes) -> list[Path]:
    """Finds image files, by their suffixes, among files and in folders of any depth, sorted.

    Links to folders are followed. Files and folders that are left out are added to `notes`.
    """
    images: list[Path] = []
    folders, links = [], []
    above, seen = set(), set()  # real paths
    for place in places:
        if os.path.isdir(place) or (not _is_image(place, images, notes) and place.is_dir()):
            folders.append(place)
            above.update(map(str, Path(os.path.realpath(place)).parents))
    while folders or links:
        # Folders themselves come before links to them.
        folder = folders.pop() if folders else links.pop(links.index(min(links)))
        real = os.path.realpath(folder)
        if real in seen or (os.path.islink(folder) and real in above):
            note(notes, LINKS, folder)
            continue
        seen.add(real)
        with os.scandir(folder) as entries:
            for entry in entries:
                path = folder / entry.name
                if is_litter(entry.name):
                    note(notes, HIDDEN, path)
                elif is_folder(entry):  # whatever its suffix
                    (links if entry.is_symlink() else folders).append(path)
                elif not _is_image(path, images, notes) and entry.is_symlink():
                    note(notes, LINKS, path)
    return sorted(images, key=str)


def is_folder(entry: os.DirEntry) -> bool:
    """Returns whether an entry is a folder or a link to one, without a `stat` of every file."""
    return os.path.isdir(entry) if entry.is_symlink() else entry.is_dir()


def _is_image(path: Path, images: list[Path], notes: Notes) -> bool:
    """Adds a file to `images` or `notes`; returns False for pipes and the like."""
    if path.suffix.lower() in SUFFIXES:
        images.append(path)
    elif path.is_file():
        note(notes, OTHERS, path)
    else:
        return False
    return True


def note(notes: Notes, kind: str, *paths: Path) -> None:
    """Adds files to the notes of a kind."""
    if paths:
        notes.setdefault(kind, set()).update(paths)


def print_notes(notes: Notes) -> None:
    """Prints a line on stderr for each kind: its count and examples."""
    for kind, paths in sorted(notes.items()):
        print(f"{len(paths)} {kind}: {some(map(printable, sorted(paths)))}", file=sys.stderr)
