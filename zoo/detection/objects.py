"""Printing, drawing and writing of detected objects, in COCO's format of results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zoo.errors import needs_extra, printable, require
from zoo.files import write_json

MOST = 100  # images in an image grid
Objects = list[dict[str, Any]]  # in COCO's format of results, with the names of the categories
SUFFIXES = (".png", ".json")


def check_output(output: Path | None, photos: Sequence[Path]) -> None:
    """Refuses more images than an image grid can hold."""
    expected = f"photos: expected at most {MOST} in a grid"
    received = f"{len(photos)} (write .json)"
    require(output is None or output.suffix != ".png" or len(photos) <= MOST, expected, received)


def describe(photo: Path, detections: Objects, threshold: float) -> str:
    """Formats the lines about an image: its name, then scores, names and boxes of its objects."""
    lines = [printable(photo)]
    for detection in detections:
        if detection["score"] >= threshold:
            left, top, width, height = detection["bbox"]
            lines.append(
                f"{detection['score']:8.1%}  {printable(detection['name'])}, "
                f"{width:.0f} x {height:.0f} pixels at ({left:.0f}, {top:.0f})"
            )
    return "\n".join([*lines, ""])


def write(
    results: Sequence[tuple[Path, Objects]], title: str, threshold: float, output: Path
) -> None:
    """Draws an image grid with objects (.png), or writes all objects (.json)."""
    if output.suffix != ".png":
        rows = [
            {**detection, "file_name": str(photo)}
            for photo, detections in results
            for detection in detections
        ]
        for row in rows:
            del row["name"]
        write_json(output, rows, indent=1)
        return
    from zoo.detection.plots import plot_detections

    with needs_extra("detection"):
        from PIL import Image, ImageOps

    images, names = [], {}
    for photo, detections in results:
        with Image.open(photo) as image:
            pixels = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
        images.append((photo.name, pixels, detections, None))
        names |= {detection["category_id"]: detection["name"] for detection in detections}
    title = f"{title}: objects with a score from {threshold:.0%}"
    plot_detections(images, names, title, output, threshold, 2)
