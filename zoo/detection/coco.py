"""Annotations in COCO's format, checked before use.

https://cocodataset.org/#format-data: boxes are [x, y, width, height] in pixels, masks are
polygons, or run-length encodings (RLE) of the whole image column by column.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic import ValidationInfo as Info

from zoo.detection import normalize, other_formats
from zoo.detection.normalize import Findings, Id, Json, short
from zoo.errors import first_wrong, needs_extra, printable, refusal, require, some
from zoo.files import why_no_file
from zoo.run_folder import read_json

MAX_CATEGORY = normalize.CATEGORY_IDS[-1]
NAMED = 5  # kinds of faults listed in a message
ROUNDING = 1.0  # pixels by which rounded boxes may exceed the image without a note
LARGEST = 2.0**53  # pycocotools and NumPy fail on larger numbers


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
    file_id: Id | None = None


def _differ(categories: list[_Category]) -> list[_Category]:
    for place, category in enumerate(categories):
        require(
            not any(
                category.id == other.id or category.name == other.name
                for other in categories[:place]
            ),
            "expected categories with ids and names of their own",
            f"id={category.id if category.file_id is None else category.file_id!r} "
            f"name={category.name!r} again",
        )
    return categories


class _File(_Entry):
    images: list[Json]
    annotations: list[Json]
    categories: list[Json]


class _Categories(_Entry):
    categories: Annotated[list[_Category], AfterValidator(_differ)]


class _Image(_Entry):
    id: Annotated[int, Field(ge=0, lt=2**63)]
    """a whole number of its own"""
    file_name: str
    """a file of the folder"""
    height: _Side
    width: _Side
    file_id: Id | None = None


class _Object(_Entry):
    image_id: _Known
    """the id of an image"""
    category_id: _Known
    """a category"""
    bbox: Annotated[list[_Number], Field(min_length=4, max_length=4)] | None = None
    """bbox=[x, y, width, height]"""
    iscrowd: int = Field(default=0, ge=0, le=1)
    """iscrowd to be 0 or 1"""


def _fault(expected: str, received: object) -> ValueError:
    return ValueError(f"expected {expected}, received {received}")


class _LeftOut(ValueError):
    """An object that no detector can find; the message is its kind."""


@dataclass(frozen=True)
class Annotations:
    """Images of a folder with their objects, both as in COCO's format."""

    folder: Path
    categories: Mapping[int, str]  # names by id, from 1, possibly with gaps
    images: list[Json]
    objects: Mapping[int, list[Json]]  # of every image by its id, with compressed RLEs as masks
    masks: bool = True  # whether objects have masks, or boxes only
    # Ids of the categories in the user's file, where they differ.
    file_ids: Mapping[int, Id] = field(default_factory=dict)
    digests: Mapping[str, bytes] = field(default_factory=dict)  # of image files that were read

    def renumbered(self, numbers: Mapping[str, int]) -> "Annotations":
        """Returns the annotations with other ids of the categories; `numbers` are ids by name."""
        new = {i: numbers[name] for i, name in self.categories.items() if name in numbers}
        file_ids = {number: self.file_ids.get(i, i) for i, number in new.items()}
        return replace(
            self,
            categories={number: name for name, number in numbers.items()},
            objects={
                image: [
                    {**annotation, "category_id": new[annotation["category_id"]]}
                    for annotation in objects
                ]
                for image, objects in self.objects.items()
            },
            file_ids={number: i for number, i in file_ids.items() if i != number},
        )

    def to_json(self) -> Json:
        """Returns COCO's format; `file_id` is the id of a category in the file, if it differs."""
        file_ids = {i: {"file_id": file_id} for i, file_id in self.file_ids.items()}
        return {
            "images": self.images,
            "categories": [
                {"id": i, "name": name} | file_ids.get(i, {}) for i, name in self.categories.items()
            ],
            "annotations": [
                annotation for image in self.images for annotation in self.objects[image["id"]]
            ],
        }


def read(path: Path, folder: Path, skip: bool = False, masks: bool | None = None) -> Annotations:
    """Reads annotations as tools write them, and checks all of them and all image files.

    Faulty objects and images are refused; `skip` reports them on stderr and leaves them out.
    `masks` is whether objects need masks; None: if any object has one.
    """
    require(folder.is_dir(), "expected a folder of images", repr(str(folder)))
    annotations, notes, faults = parse(path, folder, masks)
    if faults and not skip:
        hint = "(--unreadable skip leaves out what is not)"
        received = some(map(printable, faults.lines()), NAMED, "; ")
        raise refusal(f"expected intact annotations in {str(path)!r} {hint}", received)
    for line in [*notes.lines(), *(f"left out: {line}" for line in faults.lines())]:
        print(f"{printable(path)}: {printable(line)}", file=sys.stderr)
    crowds = {
        annotation["iscrowd"] for objects in annotations.objects.values() for annotation in objects
    }
    require(crowds, f"expected at least one object in {str(path)!r}", "none")
    if crowds == {1}:
        print(
            f"{printable(path)}: all objects are crowds (iscrowd 1, which CVAT writes for masks); "
            "training and AP leave crowds out",
            file=sys.stderr,
        )
    return annotations


def parse(
    path: Path, folder: Path | None = None, masks: bool | None = None
) -> tuple[Annotations, Findings, Findings]:
    """Reads intact images and objects; also returns notes on changes, and the faults.

    Without a folder, the file is one of `Annotations.to_json`, and no image files are read.
    """
    content = _content(path)
    notes, faults, turned, digests = Findings(), Findings(), {}, {}
    known = content["images"]
    if folder is not None:
        normalize.normalize(content, notes)
        known = normalize.find_files(content["images"], folder, notes, faults)
        known, turned, digests = normalize.measure(known, folder, notes, faults)
    if masks is None:
        masks = any(annotation.get("segmentation") for annotation in content["annotations"])
    try:
        categories = _Categories.model_validate({"categories": content["categories"]}).categories
    except ValidationError as error:
        received = f"{path} ({first_wrong(error, 'the file')})"
        raise refusal("expected COCO's format", received) from None
    categories.sort(key=lambda category: category.id)
    names = {category.id: category.name for category in categories}
    images = _images(known, notes, faults)
    objects: dict[int, list[Json]] = {image["id"]: [] for image in images.values()}
    merged = Counter(image["file_name"] for image in known)
    left_out = {repr(image.get("id")) for image in content["images"]} - {*map(repr, images)}
    # Ids start at 1: pycocotools takes 0 for no object.
    for number, annotation in enumerate(content["annotations"], start=1):
        where = f"object {short(annotation.get('id', f'number {number}'))}"
        if repr(annotation.get("image_id")) in left_out:
            notes.add("objects of images that are left out", where)
            continue
        try:
            valid = _object(annotation, images, names, masks, turned, notes)
            others = objects[valid["image_id"]]
            is_merged = merged[images[valid["image_id"]]["file_name"]] > 1
            if is_merged and any(other == {"id": other["id"], **valid} for other in others):
                notes.add("repeated objects of merged images left out", where)
                continue
            others.append({"id": number, **valid})
        except _LeftOut as error:
            notes.add(f"{error} left out", f"{where}: bbox={short(annotation.get('bbox'))}")
        except ValueError as error:
            kind, _, received = str(error).partition(", received ")
            faults.add(kind, f"{where}: {received}".rstrip(": "))
    file_ids = {
        category.id: category.file_id for category in categories if category.file_id is not None
    }
    files = [image for number, image in images.items() if number == image["id"]]
    annotations = Annotations(
        folder or path.parent, names, files, objects, masks, file_ids, digests
    )
    return annotations, notes, faults


def _content(path: Path) -> Json:
    """Reads the three lists of a file; the error about another kind of file names its format."""
    try:
        if why := why_no_file(path):
            raise refusal("expected a JSON file of annotations", f"{str(path)!r} ({why})")
        content = read_json(_File, path, "expected COCO's format").model_dump()
        what = other_formats.identify_annotations(content["annotations"])
    except ValueError:
        if not (what := other_formats.identify_file(path)):
            raise
    require(
        not what, "expected boxes or masks of objects in COCO's format", f"{str(path)!r}, {what}"
    )
    return content


def _entry(kind: type[_Entry], entry: Json, **known: Mapping[int, Any]) -> Json:
    """Validates an entry; an error has the description of the first faulty field."""
    try:
        return kind.model_validate(entry, context=known).model_dump(exclude_none=True)
    except ValidationError as error:
        field = str(error.errors()[0]["loc"][0])
        expected = str(kind.model_fields[field].description)
        raise _fault(expected, f"{field}={short(entry.get(field))}") from None


def _images(entries: list[Json], notes: Findings, faults: Findings) -> dict[int, Json]:
    """Returns the intact images by id; all ids of a file lead to its first image."""
    images: dict[int, Json] = {}
    files: dict[str, Json] = {}
    for entry in entries:
        where = f"image {short(entry.get('id'))}"
        try:
            image = _entry(_Image, entry)
            first = files.setdefault(image["file_name"], image)
            if images.setdefault(image["id"], first) is not first:
                raise _fault("a whole number of its own", "it again")
            if first is not image:
                notes.add("repeated images merged", f"{where}: {image['file_name']}")
        except ValueError as error:
            kind, _, received = str(error).partition(", received ")
            faults.add(kind, f"{where}: {received}")
    return images


def _object(
    annotation: Json,
    images: Mapping[int, Json],
    categories: Mapping[int, str],
    masks: bool,
    turned: Mapping[str, int],
    notes: Findings,
) -> Json:
    """Returns an object with a clipped box, an area, and the mask as a compressed RLE."""
    valid = _entry(_Object, annotation, image_id=images, category_id=categories)
    image, where = images[valid["image_id"]], f"object {short(annotation.get('id'))}"
    size, turn = (image["height"], image["width"]), turned.get(repr(valid["image_id"]), 0)
    valid["image_id"] = image["id"]
    size = size[::-1] if turn else size
    box, mask = valid.get("bbox"), None
    boxless = (box is None or min(box[2:]) <= 0) and bool(annotation.get("segmentation"))
    if masks or boxless:
        mask = read_mask(annotation.get("segmentation"), *size)
    if boxless:
        notes.add("bbox computed from the mask", f"{where}: bbox={short(box)}")
        box = _pycocotools().toBbox(mask).tolist()
    if box is None:
        raise _fault("bbox=[x, y, width, height]", "none")
    clipped, outside = _clipped(box, *size)
    if outside > ROUNDING:
        notes.add("boxes clipped at the edge of their image", f"{where}: bbox={short(box)}")
    pixels = clipped[2] * clipped[3]
    if masks:
        pixels = float(_pycocotools().area(mask))
        if not pixels:
            raise _LeftOut("masks without pixels")
        valid["segmentation"] = _turn_mask(mask, turn)
    area = annotation.get("area")
    if isinstance(area, bool) or not isinstance(area, int | float) or not 0 < area <= LARGEST:
        notes.add("area computed from the mask or box", f"{where}: area={short(area)}")
        area = None
    valid["bbox"] = _turn_box(clipped, size, turn)
    return {**valid, "area": area if area and outside <= ROUNDING else pixels}


def _clipped(box: list[float], height: int, width: int) -> tuple[list[float], float]:
    """Returns a box within its image, and by how many pixels it reached out."""
    near, size, limits = np.array(box[:2]), np.array(box[2:]), np.array([width, height])
    begin = np.maximum(near, 0)
    clipped = np.minimum(near + size, limits) - begin
    if min(size) <= 0:
        raise _LeftOut("boxes without width or height")
    if min(clipped) <= 0:
        raise _LeftOut("boxes outside of their image")
    return [*begin.tolist(), *clipped.tolist()], max(*-near, *(near + size - limits))


def _turn_box(box: list[float], size: tuple[int, int], orientation: int) -> list[float]:
    """Turns a box of an image of height and width `size` upright, by an orientation from 5 to 8."""
    if not orientation:
        return box
    from zoo.data.crops import REVERSED

    top, left, down, across = box  # transposed
    rows, columns = REVERSED[orientation - 5]
    height, width = size[::-1]
    left = width - left - across if columns else left
    return [left, height - top - down if rows else top, across, down]


def _turn_mask(encoded: Any, orientation: int) -> Json:
    if not orientation:
        return encoded
    from zoo.data.crops import REVERSED

    rows, columns = (-1 if reverse else 1 for reverse in REVERSED[orientation - 5])
    return encode_mask(_pycocotools().decode(encoded).T[::rows, ::columns])


def read_mask(segmentation: Any, height: int, width: int) -> Json:
    """Converts a mask in COCO's format to pycocotools' compressed RLE, with text as `counts`.

    It is polygons `[[x, y, x, y, ...], ...]`, or an RLE `{"size": [height, width], "counts": ...}`
    with whole numbers or pycocotools' text.
    """
    mask = _pycocotools()
    if isinstance(segmentation, list) and list(map(type, segmentation)) == [dict]:
        segmentation = segmentation[0]  # the form of RLEs for the Model Garden's converter
    if isinstance(segmentation, list) and segmentation:
        polygons = [_polygon(polygon, height, width) for polygon in segmentation]
        polygons = [polygon for polygon in polygons if len(polygon) >= 6]
        if not polygons:
            return encode_mask(np.zeros((height, width)))
        return as_text(mask.merge(mask.frPyObjects(polygons, height, width)))
    size = segmentation.get("size") if isinstance(segmentation, dict) else segmentation
    if not isinstance(segmentation, dict) or size not in (None, [height, width]):
        hint = "" if segmentation else " (--masks false takes boxes alone)"
        expected = f"polygons, or an RLE of the height and width of its image{hint}"
        raise _fault(expected, short(size))
    counts = segmentation.get("counts")
    counts = run_lengths(counts) if isinstance(counts, str) else counts
    try:
        counts = _COUNTS.validate_python(counts)
    except ValidationError:
        raise _fault("an RLE with counts, which are whole numbers", short(counts)) from None
    if sum(counts) != height * width:
        received = f"{short(sum(counts))} pixels, not {height * width}"
        raise _fault("an RLE of all pixels of its image", received)
    return as_text(mask.frPyObjects({"size": [height, width], "counts": counts}, height, width))


def _polygon(polygon: Any, height: int, width: int) -> list[float]:
    """Checks and clips a polygon, so that pycocotools does not hang or crash on it.

    pycocotools walks along all edges. Parts further outside of the image than its size are cut off.
    """
    try:
        points = np.reshape(_POLYGON.validate_python(polygon), (-1, 2))
    except ValueError:
        expected = "polygons [x, y, x, y, x, y, ...] of three points or more in pixels"
        raise _fault(expected, short(polygon)) from None
    size = np.array([width, height])
    if ((points < -size) | (points > 2 * size)).any():
        from matplotlib.path import Path as Outline
        from matplotlib.transforms import Bbox

        outline = Outline(np.append(points, points[:1], 0), closed=True)
        points = np.asarray(outline.clip_to_bbox(Bbox([-size, 2 * size])).vertices)
    length = np.abs(np.diff(points, axis=0, append=points[:1])).sum()
    if length > height * width + 100 * (height + width):
        expected = "polygons of at most height x width + 100 (height + width) pixels around"
        raise _fault(expected, f"{length:g}")
    return points.ravel().tolist()


def run_lengths(text: str) -> list[int]:
    """Parses the text of a compressed RLE, which pycocotools does not check.

    Each character holds five bits of a number, and a continuation bit. Numbers after the third are
    differences to the last but one.
    """
    runs, value, shift = [], 0, 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64 or shift > 30:
            raise _fault("an RLE", f"one with {character!r}")
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
    """Converts an RLE of pycocotools to types of JSON."""
    return {"size": list(map(int, encoded["size"])), "counts": encoded["counts"].decode()}


def _pycocotools() -> Any:
    """Returns the mask module of pycocotools untyped, as its type stubs are incomplete."""
    with needs_extra("detection"):
        from pycocotools import mask

    return mask
