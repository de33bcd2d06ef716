"""Images with detected objects."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zoo.errors import needs_extra, printable

with needs_extra("detection"):
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle
    from pycocotools import mask

from zoo.plots.style import Axes, bare_axis, image_grid, save_figure, styled, to_pixels

COLORS = ("#1f5fbf", "#c62828", "#2e7d32", "#ef6c00", "#6a1b9a", "#00838f", "#ad1457", "#4e342e")
Object = Mapping[str, Any]
OPACITY = 0.45  # of masks
SIDE = 6  # longer side of a figure of one image, in inches


@styled
def plot_detections(
    images: Sequence[tuple[str, np.ndarray, Sequence[Object], Sequence[Object] | None]],
    categories: Mapping[int, str],
    title: str,
    path: Path,
    threshold: float = 0.5,
    columns: int = 4,
) -> None:
    """Draws images with boxes, masks, names and scores of their objects into a PNG file.

    Each image has a heading, pixels (uint8 of shape `(height, width, 3)`), detections in COCO's
    format of results, and annotated objects or None. Segmentations are compressed RLEs. Detections
    are drawn from the score `threshold` on, annotated objects on a copy left of the detections.
    """
    panels = []
    for heading, image, detections, truth in images:
        shown = [detection for detection in detections if detection["score"] >= threshold]
        shown.sort(key=lambda detection: detection["score"])  # the highest scores are drawn on top
        if truth is not None:
            panels.append((f"annotated: {heading}", image, truth))
            heading = f"found: {heading}"
        panels.append((heading, image, shown))
    figure, axes = image_grid(len(panels), min(columns, len(panels)), 3.6, 3.6, title)
    for axis, (heading, image, objects) in zip(axes, panels, strict=True):
        _draw(axis, image, objects, categories)
        axis.set_title(printable(heading)[:50], fontsize=9)
    save_figure(figure, path)


@styled
def draw_detections(
    image: np.ndarray, detections: Sequence[Object], categories: Mapping[int, str]
) -> np.ndarray:
    """Draws an image, uint8 of shape `(height, width, 3)`, with its objects, as an RGB image."""
    height, width = image.shape[:2]
    scale = SIDE / max(height, width)
    axis = bare_axis(max(width * scale, 1), max(height * scale, 1))
    _draw(axis, image, detections[::-1], categories)  # the highest scores on top
    return to_pixels(axis.figure, 130)


def _draw(
    axis: Axes, image: np.ndarray, objects: Sequence[Object], categories: Mapping[int, str]
) -> None:
    blended = image.astype("float32")
    for entry in objects:
        number = entry["category_id"]  # as in the user's file, so it may be text
        color = COLORS[(number if isinstance(number, int) else sum(map(ord, number))) % len(COLORS)]
        if "segmentation" in entry:
            inside = mask.decode(entry["segmentation"]).astype(bool)
            rgb = 255 * np.array(to_rgb(color))
            blended[inside] = (1 - OPACITY) * blended[inside] + OPACITY * rgb
        left, top, width, height = entry["bbox"]
        axis.add_patch(Rectangle((left, top), width, height, fill=False, ec=color, lw=1.4))
        name = printable(entry.get("name") or categories.get(number, str(number)))
        text = f"{name} {entry['score']:.0%}" if "score" in entry else name
        box = {"facecolor": color, "edgecolor": "none", "pad": 1}
        axis.text(left, max(top, 0), text, fontsize=7, color="white", va="bottom", bbox=box)
    axis.imshow(blended.astype("uint8"))
