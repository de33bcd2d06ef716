"""Annotations in COCO's format, checked before use.

https://cocodataset.org/#format-data: boxes are [x, y, width, height] in pixels, masks are
polygons, or run-length encodings (RLE) of the whole image column by column.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from reprlib import repr as _short
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic import ValidationInfo as Info

from zoo.data.readable import check_readable
from zoo.errors import needs_extra, printable, some
from zoo.files import why_no_file
from zoo.run_folder import read_json

MAX_CATEGORY = 10_000  # largest id, as ids are indices of the detector's outputs
NAMED = 5  # faults listed in a message
ROUNDING = 1.0  # pixels by which rounded boxes may exceed the image; they are clipped
LARGEST = 2.0**53  # pycocotools and NumPy fail on larger numbers

Json = dict[str, Any]


def _stays_inside(name: str) -> str:
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise ValueError("outside of the folder")
    return name


def _known(number: int, info: Info) -> int:
    if number not in (info.context or {})[info.field_name]:
        raise ValueError("unknown")
    return number


CategoryId = Annotated[int, Field(ge=1, le=MAX_CATEGORY)]
_Side = Annotated[int, Field(ge=1, le=2**16, description="height and width in pixels")]
_Number = Annotated[float, Field(strict=True, ge=-LARGEST, le=LARGEST)]
_Known = Annotated[int, AfterValidator(_known)]
_POLYGON = TypeAdapter(Annotated[list[_Number], Field(min_length=6)])
_COUNTS = TypeAdapter(list[Annotated[int, Field(strict=True, ge=0)]])


class _Entry(BaseModel):
    """An entry of a list; descriptions of the fields are parts of messages."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)


class _Category(_Entry):
    id: CategoryId
    name: Annotated[str, Field(min_length=1)]


def _differ(categories: list[_Category]) -> list[_Category]:
    for place, one in enumerate(categories):
        if any(one.id == other.id or one.name == other.name for other in categories[:place]):
            raise ValueError(f"expected every category once. Received: {one} again")
    return categories


class _File(_Entry):
    images: list[Json]
    annotations: list[Json]
    categories: Annotated[list[_Category], AfterValidator(_differ)]


class _Image(_Entry):
    id: Annotated[int, Field(ge=0, lt=2**63)]
    """a whole number of its own"""
    file_name: Annotated[str, AfterValidator(_stays_inside)]
    """a file of the folder"""
    height: _Side
    width: _Side


class _Object(_Entry):
    image_id: _Known
    """the id of an image"""
    category_id: _Known
    """a category"""
    bbox: Annotated[list[_Number], Field(min_length=4, max_length=4)]
    """bbox=[x, y, width, height]"""
    iscrowd: int = Field(default=0, ge=0, le=1, strict=False)
    """iscrowd to be 0 or 1"""
    area: Annotated[_Number, Field(gt=0)] | None = None
    """an area in pixels"""


@dataclass(frozen=True)
class Annotations:
    """Images of a folder with their objects, both as in COCO's format."""

    folder: Path
    categories: Mapping[int, str]  # names by id, from 1, possibly with gaps
    images: list[Json]
    objects: Mapping[int, list[Json]]  # of every image by its id, with compressed RLEs as masks
    masks: bool = True  # whether objects have masks, or boxes only

    def to_json(self) -> Json:
        """Returns the annotations in COCO's format."""
        return {
            "images": self.images,
            "categories": [{"id": i, "name": name} for i, name in self.categories.items()],
            "annotations": [one for image in self.images for one in self.objects[image["id"]]],
        }


def read(path: Path, folder: Path, skip: bool = False, masks: bool | None = None) -> Annotations:
    """Reads annotations, and checks all of them and all image files.

    Faulty objects and images are refused; `skip` reports them on stderr and leaves them out.
    Whether objects need masks is `masks`; None: if any object has one.
    """
    if not folder.is_dir():
        raise ValueError(f"expected a folder of images. Received: {str(folder)!r}")
    annotations, faults = parse(path, folder, masks)
    if faults and not skip:
        raise ValueError(
            f"expected intact annotations in {str(path)!r} (--unreadable skip leaves out what is "
            f"not). Received: {some(faults, NAMED, '; ')}"
        )
    for fault in faults[:NAMED]:
        print(f"left out of {printable(path)}: {fault}", file=sys.stderr)
    if faults:
        print(f"{len(faults)} left out of {printable(path)}", file=sys.stderr)
    if not any(annotations.objects.values()):
        raise ValueError(f"expected at least one object in {str(path)!r}. Received: none")
    return annotations


def parse(
    path: Path, folder: Path | None = None, masks: bool | None = None
) -> tuple[Annotations, list[str]]:
    """Reads what is intact, and describes the faults; without a folder, no image files are read."""
    if why := why_no_file(path):
        raise ValueError(f"expected a JSON file of annotations. Received: {str(path)!r} ({why})")
    content = read_json(_File, path, "expected COCO's format")
    if masks is None:
        masks = any(one.get("segmentation") for one in content.annotations)
    categories = {one.id: one.name for one in sorted(content.categories, key=lambda one: one.id)}
    faults: list[str] = []
    images = _images(content.images, faults)
    if folder is not None:
        _check_files(images, folder, faults)
    objects: dict[int, list[Json]] = {number: [] for number in images}
    for number, one in enumerate(content.annotations, start=1):  # 0 is no object in pycocotools
        try:
            valid = _object(one, images, categories, masks)
            objects[valid["image_id"]].append({"id": number, **valid})
        except ValueError as error:
            faults.append(f"object {_short(one.get('id', f'number {number}'))}: {error}")
    found = Annotations(folder or path.parent, categories, [*images.values()], objects, masks)
    return found, list(map(printable, faults))


def _entry(kind: type[_Entry], one: Json, **known: Mapping[int, Any]) -> Json:
    """Validates an entry; an error has the description of the first faulty field."""
    try:
        return kind.model_validate(one, context=known).model_dump()
    except ValidationError as error:
        field = str(error.errors()[0]["loc"][0])
        expected = kind.model_fields[field].description
        received = f"{field}={_short(one.get(field))}"
        raise ValueError(f"expected {expected}, received {received}") from None


def _images(found: list[Json], faults: list[str]) -> dict[int, Json]:
    """Returns the intact images by id, and describes the others in `faults`."""
    images: dict[int, Json] = {}
    for one in found:
        try:
            image = _entry(_Image, one)
            if image["id"] in images:
                raise ValueError("expected a whole number of its own, received it again")
            images[image["id"]] = image
        except ValueError as error:
            faults.append(f"image {_short(one.get('id'))}: {error}")
    return images


def _check_files(images: dict[int, Json], folder: Path, faults: list[str]) -> None:
    """Removes images whose files are faulty, and describes them in `faults`."""
    paths = [str(folder / one["file_name"]) for one in images.values()]
    files = check_readable(paths, skip=True)
    for one, file in zip(list(images.values()), files, strict=True):
        why = file.why
        if not why and (file.height, file.width) != (one["height"], one["width"]):
            why = f"expected {one['width']} x {one['height']} pixels, "
            why += f"received {file.width} x {file.height}"
        if why:
            faults.append(f"{one['file_name']}: {why}")
            del images[one["id"]]


def _object(
    one: Json, images: Mapping[int, Json], categories: Mapping[int, str], masks: bool
) -> Json:
    """Returns an object with a clipped box, an area, and the mask as a compressed RLE."""
    valid = _entry(_Object, one, image_id=images, category_id=categories)
    height, width = (images[valid["image_id"]][side] for side in ("height", "width"))
    valid["bbox"] = _clipped(valid["bbox"], height, width)
    pixels = valid["bbox"][2] * valid["bbox"][3]
    if masks:
        valid["segmentation"] = read_mask(one.get("segmentation"), height, width)
        pixels = float(_pycocotools().area(valid["segmentation"]))
        if not pixels:
            raise ValueError("expected a mask of at least one pixel, received none")
    return {**valid, "area": valid["area"] or pixels}


def _clipped(box: list[float], height: int, width: int) -> list[float]:
    near, size, limits = np.array(box[:2]), np.array(box[2:]), np.array([width, height])
    outside = max(*-near, *(near + size - limits))
    begin = np.maximum(near, 0)
    clipped = np.minimum(near + size, limits) - begin
    if min(size) <= 0 or outside > ROUNDING or min(clipped) <= 0:
        raise ValueError(
            f"expected a box in an image of {width} x {height} pixels, received bbox={_short(box)}"
        )
    return [*begin.tolist(), *clipped.tolist()]


def read_mask(segmentation: Any, height: int, width: int) -> Json:
    """Converts a mask in COCO's format to pycocotools' compressed RLE, with text as `counts`.

    It is polygons `[[x, y, x, y, ...], ...]`, or an RLE `{"size": [height, width], "counts": ...}`
    with whole numbers or pycocotools' text.
    """
    mask = _pycocotools()
    if isinstance(segmentation, list) and list(map(type, segmentation)) == [dict]:
        segmentation = segmentation[0]  # the form of RLEs for the Model Garden's converter
    if isinstance(segmentation, list) and segmentation:
        for polygon in segmentation:
            _check_polygon(polygon, height, width)
        return as_text(mask.merge(mask.frPyObjects(segmentation, height, width)))
    if not isinstance(segmentation, dict) or segmentation.get("size") != [height, width]:
        hint = "" if segmentation else " (--masks false takes boxes alone)"
        raise ValueError(f"expected polygons, or an RLE with size=[{height}, {width}]{hint}")
    counts = segmentation.get("counts")
    counts = run_lengths(counts) if isinstance(counts, str) else counts
    try:
        counts = _COUNTS.validate_python(counts)
    except ValidationError:
        raise ValueError("expected an RLE with counts, which are whole numbers") from None
    if sum(counts) != height * width:
        raise ValueError(
            f"expected an RLE of {height * width} pixels, received {sum(counts)} pixels"
        )
    return as_text(mask.frPyObjects({"size": [height, width], "counts": counts}, height, width))


def _check_polygon(polygon: Any, height: int, width: int) -> None:
    """Refuses polygons on which pycocotools, which walks along all edges, hangs or crashes."""
    try:
        points = np.reshape(_POLYGON.validate_python(polygon), (-1, 2))
    except ValueError:
        raise ValueError(
            "expected polygons [x, y, x, y, x, y, ...] of three points or more in pixels"
        ) from None
    size = np.array([width, height])
    if (points < -size).any() or (points > 2 * size).any():
        raise ValueError(
            f"expected polygons in an image of {width} x {height} pixels, received coordinates "
            f"from {points.min():g} to {points.max():g}"
        )
    length = np.abs(np.diff(points, axis=0, append=points[:1])).sum()
    if length > (most := height * width + 100 * (height + width)):
        raise ValueError(f"expected polygons of at most {most} pixels around, received {length:g}")


def run_lengths(text: str) -> list[int]:
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


def encode_mask(pixels: np.ndarray) -> Json:
    """Encodes an array of 0 and 1, of shape `(height, width)`, as a compressed RLE."""
    return as_text(_pycocotools().encode(np.asfortranarray(pixels, "uint8")))


def as_text(encoded: Json) -> Json:
    """Returns an RLE of pycocotools for JSON."""
    return {"size": list(map(int, encoded["size"])), "counts": encoded["counts"].decode()}


def _pycocotools() -> Any:
    """Returns the mask module of pycocotools untyped, as its type stubs are incomplete."""
    with needs_extra("detection"):
        from pycocotools import mask

    return mask
