"""Detected objects, printed, drawn, or written in COCO's format of results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zoo.detection.coco import encode_mask
from zoo.errors import needs_extra, printable
from zoo.files import write_json

MOST = 100  # images in an image grid
Objects = list[dict[str, Any]]  # in COCO's format of results, with the names of the categories
SUFFIXES = (".png", ".json")


def check_output(output: Path | None, photos: Sequence[Path]) -> None:
    """Refuses more images than an image grid can hold."""
    if output is not None and output.suffix == ".png" and len(photos) > MOST:
        raise ValueError(
            f"photos: expected at most {MOST} in a grid. Received: {len(photos)} (write .json)"
        )


def describe(photo: Path, found: Objects, threshold: float) -> str:
    """Formats the lines about an image: its name, then scores, names and boxes of its objects."""
    lines = [printable(photo)]
    for one in found:
        if one["score"] >= threshold:
            left, top, width, height = one["bbox"]
            lines.append(
                f"{one['score']:8.1%}  {printable(one['name'])}, "
                f"{width:.0f} x {height:.0f} pixels at ({left:.0f}, {top:.0f})"
            )
    return "\n".join([*lines, ""])


def paste(
    mask: Sequence[Sequence[int]], box: Sequence[float], size: Sequence[int]
) -> dict[str, Any]:
    """Pastes a mask, from 0 to 255, into its box, and encodes it as an RLE of an image's size."""
    with needs_extra("detection"):
        from PIL import Image

    # As in the Model Garden: zeros around the mask, and a larger box of whole pixels.
    padded = np.pad(np.array(mask, "float32"), 1)
    (rows, columns), (height, width) = padded.shape, size
    (left, right), (top, bottom) = (
        (int(begin - side / (columns - 2)), int(begin + side + side / (columns - 2)) + 1)
        for begin, side in ((box[0], box[2]), (box[1], box[3]))
    )
    across, down = columns / (right - left), rows / (bottom - top)
    affine = (across, 0, -left * across, 0, down, -top * down)
    large = Image.fromarray(padded).transform(
        (width, height), Image.Transform.AFFINE, affine, Image.Resampling.BILINEAR
    )
    inside = np.zeros((height, width), bool)
    area = np.s_[max(top, 0) : bottom, max(left, 0) : right]
    inside[area] = np.asarray(large)[area] > 127.5
    return encode_mask(inside)


def write(
    results: Sequence[tuple[Path, Objects]], title: str, threshold: float, output: Path
) -> None:
    """Draws an image grid with objects (.png), or writes all objects (.json)."""
    if output.suffix != ".png":
        rows = [{**one, "file_name": str(photo)} for photo, found in results for one in found]
        for row in rows:
            del row["name"]
        write_json(output, rows, indent=1)
        return
    from zoo.detection.plots import plot_detections

    with needs_extra("detection"):
        from PIL import Image, ImageOps

    images, names = [], {}
    for photo, found in results:
        with Image.open(photo) as image:
            pixels = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
        images.append((photo.name, pixels, found, None))
        names |= {one["category_id"]: one["name"] for one in found}
    title = f"{title}: objects with a score from {threshold:.0%}"
    plot_detections(images, names, title, output, threshold, 2)
