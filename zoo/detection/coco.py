"""Annotations in COCO's format, checked before use.

https://cocodataset.org/#format-data: boxes are [x, y, width, height] in pixels, masks are
polygons, or run-length encodings (RLE) of the whole image column by column.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from reprlib import repr as _short
from typing import Any

import numpy as np

from zoo.data.readable import check_readable
from zoo.errors import needs_extra, printable, some
from zoo.files import why_no_file

MAX_CATEGORY = 10_000  # largest id, as ids are indices of the detector's outputs
NAMED = 5  # faults listed in a message
ROUNDING = 1.0  # pixels by which rounded boxes may exceed the image; they are clipped
LARGEST = 2.0**53  # pycocotools and NumPy fail on larger numbers

Json = dict[str, Any]


@dataclass(frozen=True)
class Annotations:
    """Images with their objects.

    Attributes:
        folder: Folder of the image files.
        categories: Names of the categories by id, from 1, possibly with gaps.
        images: As in COCO's format: `id`, `file_name`, `height`, `width`.
        objects: Objects by the id of their image, as in COCO's format: `id`, `image_id`,
            `category_id`, `bbox`, `area`, `iscrowd` and, with masks, `segmentation`. Every image
            has an entry.
        masks: Whether objects have masks, or boxes only.
    """

    folder: Path
    categories: Mapping[int, str]
    images: list[Json]
    objects: Mapping[int, list[Json]]
    masks: bool = True

    def to_json(self) -> Json:
        """Returns the annotations in COCO's format."""
        return {
            "images": self.images,
            "categories": [{"id": i, "name": name} for i, name in self.categories.items()],
            "annotations": [one for image in self.images for one in self.objects[image["id"]]],
        }


def read(path: Path, folder: Path, skip: bool = False, masks: bool | None = None) -> Annotations:
    """Reads annotations, and checks all of them and all image files.

    Args:
        path: JSON file in COCO's format.
        folder: Folder of the images.
        skip: Whether faulty objects and images are reported on stderr and left out, or refused.
            Defaults to False.
        masks: Whether objects need masks, or boxes only. Defaults to None: masks, if any object
            has one.

    Raises:
        ValueError: If the file is not in COCO's format, no object is left, or something is faulty
            and not skipped: a missing or repeated category, image or file, an unreadable file, one
            of another size, a box outside of its image, a wrong mask.
    """
    content = load(path)
    if masks is None:
        masks = any(one.get("segmentation") for one in content["annotations"])
    categories = _categories(content["categories"], path)
    faults: list[str] = []
    images = _images(content["images"], folder, faults)
    objects = _objects(content["annotations"], images, categories, masks, faults)
    if faults:
        _report(list(map(printable, faults)), path, skip)
    if not any(objects.values()):
        raise ValueError(f"expected at least one object in {str(path)!r}. Received: none")
    return Annotations(folder, categories, list(images.values()), objects, masks)


def _report(faults: list[str], path: Path, skip: bool) -> None:
    """Refuses faulty annotations, or reports the ones that are left out."""
    if not skip:
        raise ValueError(
            f"expected intact annotations in {str(path)!r} (--unreadable skip leaves out what is "
            f"not). Received: {some(faults, NAMED, '; ')}"
        )
    for fault in faults[:NAMED]:
        print(f"left out of {printable(path)}: {fault}", file=sys.stderr)
    print(f"{len(faults)} left out of {printable(path)}", file=sys.stderr)


def load(path: Path) -> Json:
    """Reads a file in COCO's format, and checks that it has all three lists.

    Raises:
        ValueError: If the file is missing, no JSON, or lacks one of the lists.
    """
    if why := why_no_file(path):
        raise ValueError(f"expected a JSON file of annotations. Received: {str(path)!r} ({why})")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected JSON in {str(path)!r}. Received: {error}") from None
    for key in ("images", "annotations", "categories"):
        found = content.get(key) if isinstance(content, dict) else None
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise ValueError(
                f"expected COCO's format in {str(path)!r}, with a list of objects {key!r}. "
                f"Received: {type(found).__name__}"
            )
    return content


def _categories(found: list[Json], path: Path) -> dict[int, str]:
    categories: dict[int, str] = {}
    for one in found:
        number: Any = one.get("id")
        name = one.get("name")
        if not _is_integer(number, 1, MAX_CATEGORY) or not isinstance(name, str) or not name:
            raise ValueError(
                f"expected categories with an id from 1 to {MAX_CATEGORY} and a name in "
                f"{str(path)!r}. Received: id={number!r}, name={name!r}"
            )
        if number in categories or name in categories.values():
            raise ValueError(
                f"expected every category once in {str(path)!r}. Received: id={number}, "
                f"name={name!r} again"
            )
        categories[number] = name
    return dict(sorted(categories.items()))


def _images(found: list[Json], folder: Path, faults: list[str]) -> dict[int, Json]:
    """Returns the images by id, and adds the faulty ones to `faults`."""
    if not folder.is_dir():
        raise ValueError(f"expected a folder of images. Received: {str(folder)!r}")
    images: dict[int, Json] = {}
    for one in found:
        number: Any = one.get("id")
        name = one.get("file_name")
        if not _is_integer(number, 0, 2**63 - 1) or number in images:
            faults.append(f"image {_short(number)}: expected a whole number of its own as id")
        elif not isinstance(name, str) or not _stays_inside(name):
            faults.append(f"image {number}: expected a file of the folder, received {_short(name)}")
        elif not all(_is_integer(one.get(side), 1, 2**16) for side in ("height", "width")):
            faults.append(f"image {number}: expected height and width in pixels")
        elif why := why_no_file(folder / name):
            faults.append(f"{name}: {why}")
        else:
            images[number] = {key: one[key] for key in ("id", "file_name", "height", "width")}
    files = check_readable([str(folder / one["file_name"]) for one in images.values()], skip=True)
    for (number, one), file in zip(list(images.items()), files, strict=True):
        why = file.why or _other_size(folder / one["file_name"], one)
        if why:
            faults.append(f"{one['file_name']}: {why}")
            del images[number]
    return images


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _other_size(path: Path, image: Json) -> str:
    with needs_extra("detection"):
        from PIL import Image

    with Image.open(path) as file:
        width, height = file.size
    if (height, width) == (image["height"], image["width"]):
        return ""
    return f"expected {image['width']} x {image['height']} pixels, received {width} x {height}"


def _objects(
    found: list[Json],
    images: Mapping[int, Json],
    categories: Mapping[int, str],
    masks: bool,
    faults: list[str],
) -> dict[int, list[Json]]:
    """Returns objects by the ids of their images, and adds the faulty ones to `faults`."""
    objects: dict[int, list[Json]] = defaultdict(list, {number: [] for number in images})
    for place, one in enumerate(found):
        try:
            image: Any = one.get("image_id")
            category: Any = one.get("category_id")
            if not _is_integer(image, 0, 2**63 - 1) or image not in images:
                raise ValueError(f"expected the id of an image, received image_id={_short(image)}")
            if not _is_integer(category, 1, MAX_CATEGORY) or category not in categories:
                raise ValueError(f"expected a category, received category_id={_short(category)}")
            box = _box(one.get("bbox"), images[image])
            pixels, mask = box[2] * box[3], {}
            if masks:
                pixels, mask = _mask(one, images[image])
            objects[image].append(
                {
                    "id": place + 1,  # 0 means no object in pycocotools
                    "image_id": image,
                    "category_id": category,
                    "bbox": box,
                    "iscrowd": int(_is_crowd(one)),
                    "area": _area(one, pixels),
                    **mask,
                }
            )
        except ValueError as error:
            faults.append(f"object {_short(one.get('id', f'number {place}'))}: {error}")
    return dict(objects)


def is_box(box: Any) -> bool:
    """Returns whether a value is a list of four finite numbers."""
    return _is_numbers(box) and len(box) == 4


def _box(box: Any, image: Json) -> list[float]:
    if not is_box(box):
        raise ValueError(f"expected bbox=[x, y, width, height], received {_short(box)}")
    left, top, right, bottom = box[0], box[1], box[0] + box[2], box[1] + box[3]
    outside = max(-left, -top, right - image["width"], bottom - image["height"])
    left, top = max(left, 0.0), max(top, 0.0)
    width = min(right, image["width"]) - left
    height = min(bottom, image["height"]) - top
    if min(box[2:]) <= 0 or outside > ROUNDING or min(width, height) <= 0:
        raise ValueError(
            f"expected a box in an image of {image['width']} x {image['height']} pixels, received "
            f"bbox={_short(box)}"
        )
    return [float(left), float(top), float(width), float(height)]


def _is_crowd(one: Json) -> bool:
    crowd = one.get("iscrowd", 0)
    if crowd not in (0, 1):
        raise ValueError(f"expected iscrowd to be 0 or 1, received {_short(crowd)}")
    return bool(crowd)


def _area(one: Json, pixels: float) -> float:
    """Returns the annotated area, else the area of the mask or the box."""
    area = one.get("area")
    area = pixels if area is None else area
    if not _is_numbers([area]) or area <= 0:
        raise ValueError(f"expected an area in pixels, received {_short(area)}")
    return float(area)


def _mask(one: Json, image: Json) -> tuple[int, Json]:
    """Returns the pixels of a mask, and the mask in the form of the Model Garden's converter.

    The form is an uncompressed RLE for crowds, else a list of RLEs or polygons.
    """
    segmentation = one.get("segmentation")
    size = image["height"], image["width"]
    pixels = int(_pycocotools().area(read_mask(segmentation, *size)))
    if not pixels:
        raise ValueError("expected a mask of at least one pixel, received none")
    if _is_crowd(one) or isinstance(segmentation, dict):
        runs = encode_mask(decode_mask(segmentation, *size))
        segmentation = runs if _is_crowd(one) else [runs]
    return pixels, {"segmentation": segmentation}


def read_mask(segmentation: Any, height: int, width: int) -> Json:
    """Converts a mask in COCO's format to pycocotools' compressed RLE.

    Args:
        segmentation: Polygons `[[x, y, x, y, ...], ...]`, or RLE
            `{"size": [height, width], "counts": ...}` with whole numbers or pycocotools' text.
        height: Height of the image.
        width: Width of the image.

    Raises:
        ValueError: If the mask has neither form, or another size.
    """
    if isinstance(segmentation, list) and list(map(type, segmentation)) == [dict]:
        segmentation = segmentation[0]  # the form of RLEs for the Model Garden's converter
    if isinstance(segmentation, list) and segmentation:
        for polygon in segmentation:
            _check_polygon(polygon, height, width)
        mask = _pycocotools()
        return mask.merge(mask.frPyObjects(segmentation, height, width))
    if not isinstance(segmentation, dict) or segmentation.get("size") != [height, width]:
        hint = "" if segmentation else " (--masks false takes boxes alone)"
        raise ValueError(f"expected polygons, or an RLE with size=[{height}, {width}]{hint}")
    counts = segmentation.get("counts")
    counts = _runs(counts) if isinstance(counts, str) else counts
    if not isinstance(counts, list) or not all(
        _is_integer(one, 0, height * width) for one in counts
    ):
        raise ValueError("expected an RLE with counts, which are whole numbers")
    if sum(counts) != height * width:
        raise ValueError(
            f"expected an RLE of {height * width} pixels, received {sum(counts)} pixels"
        )
    return _pycocotools().frPyObjects({"size": [height, width], "counts": counts}, height, width)


def _check_polygon(polygon: Any, height: int, width: int) -> None:
    """Refuses polygons on which pycocotools, which walks along all edges, hangs or crashes."""
    if not _is_numbers(polygon) or len(polygon) < 6 or len(polygon) % 2:
        raise ValueError("expected polygons [x, y, x, y, x, y, ...] of three points")
    points, size = np.reshape(polygon, (-1, 2)), np.array([width, height])
    if (points < -size).any() or (points > 2 * size).any():
        raise ValueError(
            f"expected polygons in an image of {width} x {height} pixels, received coordinates "
            f"from {points.min():g} to {points.max():g}"
        )
    length = np.abs(np.diff(points, axis=0, append=points[:1])).sum()
    if length > (most := height * width + 100 * (height + width)):
        raise ValueError(f"expected polygons of at most {most} pixels around, received {length:g}")


def _runs(text: str) -> list[int]:
    """Parses the text of a compressed RLE, which pycocotools does not check.

    Each character holds five bits of a number, and a continuation bit. Numbers after the third are
    differences to the last but one.
    """
    runs, value, shift = [], 0, 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64 or shift > 30:
            raise ValueError(f"expected an RLE, received one with {character!r}")
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        value -= (bits >> 4 & 1) << shift  # the sign
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
        value, shift = 0, 0
    return runs


def decode_mask(segmentation: Any, height: int, width: int) -> np.ndarray:
    """Decodes a mask in COCO's format to an array of 0 and 1, of shape `(height, width)`.

    Arguments and errors are those of `read_mask`.

    Example:
        >>> from zoo.detection.coco import decode_mask
        >>> decode_mask({"size": [2, 2], "counts": [1, 3]}, 2, 2).tolist()
        [[0, 1], [1, 1]]
    """
    return _pycocotools().decode(read_mask(segmentation, height, width))


def encode_mask(pixels: np.ndarray) -> Json:
    """Encodes an array of 0 and 1 as an uncompressed RLE, which `decode_mask` reads."""
    flat = pixels.ravel(order="F").astype(bool)
    bounds = [0, *(np.flatnonzero(flat[1:] != flat[:-1]) + 1).tolist(), flat.size]
    counts = [0] * bool(flat[0]) + np.diff(bounds).tolist()
    return {"size": list(pixels.shape), "counts": counts}


def _pycocotools() -> Any:
    """Returns the mask module of pycocotools untyped, as its type stubs are incomplete."""
    with needs_extra("detection"):
        from pycocotools import mask

    return mask


def _is_integer(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, int | float) and not isinstance(one, bool) and -LARGEST <= one <= LARGEST
        for one in value
    )
