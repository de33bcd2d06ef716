"""Conversion of tools' COCO files to COCO's own form: ids, numbers, polygons, file names, sizes.

Label Studio, Roboflow, CVAT, labelme, FiftyOne and pandas each differ from COCO in some of these.
"""

import itertools
import json
import math
import operator
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from reprlib import repr as short
from typing import Any
from urllib.parse import unquote, urlsplit

from zoo.data.image_files import JPEG, PNG
from zoo.data.readable import ImageFile, check_readable
from zoo.errors import needs_extra
from zoo.files import is_litter

Json = dict[str, Any]
Id = int | str
IMAGE_IDS, CATEGORY_IDS = range(2**63), range(1, 10_001)  # category ids index outputs
FLAGS = {"none": 0, "": 0, "false": 0, "0": 0, "0.0": 0, "true": 1, "1": 1, "1.0": 1}
# Keys that may hold an image's file name, in order of preference.
NAMES = ("file_name", "filename", "path", "file_path", "coco_url", "url", "flickr_url")
# The random prefix of an upload; a date is part of the name.
UPLOAD = re.compile(r"^(?!((19|20)\d{6}|\d{4}(19|20)\d\d)-)[0-9a-f]{8,}-(?=.)", re.IGNORECASE)


class Findings(dict[str, tuple[int, str]]):
    """Dataset warnings or faults: their counts and first examples by kind."""

    def add(self, kind: str, example: object) -> None:
        """Counts one more of a kind."""
        count, first = self.get(kind, (0, str(example)))
        self[kind] = count + 1, first

    def lines(self) -> list[str]:
        """Formats a line for each kind."""
        return [f"{kind} ({count}, such as {example})" for kind, (count, example) in self.items()]


def whole(value: Any) -> Any:
    """Reads 3.0, "3" and "3.0" as 3; text such as "007" may be another id than "7"."""
    if isinstance(value, str):
        text = value.strip()
        return int(text.split(".")[0]) if re.fullmatch(r"(-?[1-9]\d{,99}|0)(\.0+)?", text) else text
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _parsed(value: Any) -> Any:
    """Reads the text of a list or object, of JSON or Python."""
    try:
        is_text = isinstance(value, str) and value.strip().startswith(("[", "{"))
        return json.loads(value.replace("'", '"')) if is_text else value
    except (ValueError, RecursionError):
        return value


def _each(read: Callable[[Any], Any], value: Any) -> Any:
    """Reads the values of a list; returns the same list if none of them changes."""
    after = [*map(read, value)] if isinstance(value, list) else value
    return value if after is value or all(map(operator.is_, after, value)) else after


def _numbers(value: Any) -> Any:
    return _each(_number, _parsed(value))


def _rle(value: Any) -> Any:
    if isinstance(value, list):
        return _each(lambda part: _rle(part) if isinstance(part, dict) else part, value)
    if not isinstance(value, dict):
        return value
    lists = {key: _each(whole, _parsed(value.get(key))) for key in ("size", "counts")}
    return value if all(values is value.get(key) for key, values in lists.items()) else lists


def _is_polygon(part: Any) -> bool:
    try:
        return len(part) >= 6 and len(part) % 2 == 0 and math.isfinite(sum(part))
    except (TypeError, OverflowError):
        return False


def _polygons(value: Any) -> Any:
    """Reads one flat polygon, or points [x, y], as COCO's list of polygons."""
    if not isinstance(value, list) or all(isinstance(p, dict) or _is_polygon(p) for p in value):
        return value
    lists = [isinstance(part, list) for part in value]
    if not any(lists) or (all(lists) and all(len(point) == 2 for point in value)):
        value = [value]
    return _each(_flat, value)


def _flat(part: Any) -> Any:
    """Reads points [x, y] as one list of numbers."""
    if isinstance(part, list) and any(isinstance(point, list) for point in part):
        part = [x for point in part for x in (point if isinstance(point, list) else [point])]
    return _numbers(part) if isinstance(part, list) else part


def _intact(value: Any) -> Any:
    is_polygons = isinstance(value, list) and not any(isinstance(part, dict) for part in value)
    return (
        value if not is_polygons or all(map(_is_polygon, value)) else [*filter(_is_polygon, value)]
    )


# List, field, reader, and the note if the reader changes the value. A reader returns the same
# object if nothing changes: equality would not tell [20] from [20.0].
KINDS: tuple[tuple[str, str, Callable[[Any], Any], str], ...] = (
    ("images", "height", whole, "height read as a whole number"),
    ("images", "width", whole, "width read as a whole number"),
    ("categories", "name", lambda v: str(v) if type(v) in (int, float) else v, "name read as text"),
    ("annotations", "bbox", _numbers, "bbox read as numbers"),
    ("annotations", "area", _number, "area read as a number"),
    ("annotations", "iscrowd", lambda v: FLAGS.get(str(v).lower(), v), "iscrowd read as 0 or 1"),
    ("annotations", "segmentation", _parsed, "segmentation read from text"),
    ("annotations", "segmentation", _rle, "RLE read as whole numbers"),
    ("annotations", "segmentation", _polygons, "segmentation read as a list of polygons"),
    ("annotations", "segmentation", _intact, "parts of fewer than three points left out"),
)


def normalize(content: Mapping[str, list[Json]], notes: Findings) -> None:
    """Brings the values of the three lists into COCO's form, in place.

    Entries whose `id` changes get a `file_id`, the id in the file.
    """
    for entry in itertools.chain(*content.values()):
        entry |= {key: None for key, value in entry.items() if value != value}  # NaN of pandas
    for name, field, read, words in KINDS:
        for entry in content[name]:
            after, before = read(entry.get(field)), entry.get(field)
            if after is not before:
                entry[field] = after
                notes.add(words, f"{field}={short(before)}")
    for image in content["images"]:
        if "neg_category_ids" in image:
            words = "images of LVIS, whose own AP leaves out categories that were not searched for"
            notes.add(f"{words}; here they count", f"image {short(image.get('id'))}")
    annotations = content["annotations"]
    _number_ids(content["images"], annotations, "image_id", IMAGE_IDS, notes)
    _number_ids(content["categories"], annotations, "category_id", CATEGORY_IDS, notes)
    content["categories"][:] = _merged(content["categories"], annotations, notes)
    # If all objects have the same area, and most boxes do not fit it, it is a dummy.
    areas = {str(annotation.get("area")) for annotation in annotations}
    if len(areas) == 1 < len(annotations) and 2 * sum(map(_fits, annotations)) < len(annotations):
        for annotation in annotations:
            annotation["area"] = f"{annotation.get('area')} of all"


def _fits(annotation: Json) -> bool:
    try:
        _, _, width, height = annotation["bbox"]
        return 0.25 * width * height <= annotation["area"] <= width * height
    except (KeyError, TypeError, ValueError):
        return False


def _number_ids(
    entries: list[Json], annotations: list[Json], key: str, allowed: range, notes: Findings
) -> None:
    """Replaces ids that are not allowed by the lowest free numbers."""
    ids = [whole(entry.get("id")) for entry in entries]
    taken = {i for i in ids if type(i) is int and i in allowed}
    free = (number for number in itertools.count(1) if number not in taken)
    numbers: dict[Id, int] = {}
    for entry, i in zip(entries, ids, strict=True):
        if type(i) not in (int, str) or i == "":
            continue
        if i not in numbers:
            numbers[i] = i if i in taken else next(free)
        before, entry["id"] = entry["id"], numbers[i]
        if isinstance(before, str) or i != numbers[i]:
            entry["file_id"] = i if isinstance(before, float) else before
        if type(before) is not int or before != numbers[i]:
            notes.add(
                f"{key} numbered, results have the file's", f"{short(before)} as {numbers[i]}"
            )
    assigned = set(numbers.values())
    for annotation in annotations:
        i = whole(annotation.get(key))
        if type(i) in (int, str):
            annotation[key] = numbers.get(i, str(i) if i in assigned else i)


def _merged(categories: list[Json], annotations: list[Json], notes: Findings) -> list[Json]:
    """Merges repeated categories, and drops unused ones that share an id or name with another."""
    used = {repr(annotation.get("category_id")) for annotation in annotations}
    kept: dict[tuple[str, str], Json] = {}
    for entry in categories:
        if kept.setdefault((repr(entry.get("id")), repr(entry.get("name"))), entry) is not entry:
            notes.add("repeated categories merged", short(entry.get("name")))
    for number, name in list(kept):
        rivals = [pair for pair in kept if (pair[0] == number) != (pair[1] == name)]
        if rivals and number not in used:
            del kept[number, name]
            kind = "unused categories with the id or name of another one left out"
            notes.add(kind, f"{number} {name}")
    return [*kept.values()]


def find_files(images: list[Json], folder: Path, notes: Findings, faults: Findings) -> list[Json]:
    """Returns the images that have a file in the folder, with its path there as `file_name`.

    Paths of other machines, URLs and names of uploads are matched by base name, if only one file
    has it. All names are matched before any of them gets a file, so their order does not matter.
    """
    names = [next((image[key] for key in NAMES if image.get(key)), "") for image in images]
    matches = _match({name for name in names if isinstance(name, str)}, folder)
    files_by_id: dict[str, set[str]] = defaultdict(set)  # objects refer to images by id alone
    for image, name in zip(images, names, strict=True):
        files_by_id[repr(image.get("id"))].add(matches[name][0] if name in matches else repr(name))
    located = []
    for image, name in zip(images, names, strict=True):
        number = short(image.get("id"))
        if len(files_by_id[repr(image.get("id"))]) > 1:
            faults.add("expected a whole number of its own", f"image {number}: {short(name)}")
            continue
        if not isinstance(name, str) or name not in matches:
            shown = name[-80:] if isinstance(name, str) else name
            faults.add(
                "expected file_name to be a file of the folder, by its path or by a base name that "
                "one file has (rename the files, or file_name in the JSON)",
                f"image {number}: file_name={shown!r}",
            )
            continue
        file, is_path = matches[name]
        if not is_path or name != image.get("file_name"):
            notes.add("file_name matched by base name", f"{name[-80:]!r} as {file!r}")
        located.append({**image, "file_name": file})
    return located


def _match(names: set[str], folder: Path) -> dict[str, tuple[str, bool]]:
    """Returns the file of each name that has one, and whether the name is its path.

    If several names match a file by their ends, it goes to the best match, or to none in a tie.
    """
    paths = {name for name in names if stays_inside(name) and os.path.lexists(folder / name)}
    matches = {name: (PurePosixPath(name).as_posix(), True) for name in paths}
    if names == paths:
        return matches
    by_end: _Files = defaultdict(list)
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not is_litter(name)]
        for file in files:
            path = Path(place, file).relative_to(folder).as_posix()
            for _, end in _ends(path.split("/")):
                by_end[True, end].append(path)
                by_end[False, _key(end)].append(path)
    claims: dict[str, dict[_Likeness, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in names - paths:
        for file, likeness in _meant(name, by_end):
            claims[file][likeness].append(name)
    for file in claims.keys() - {file for file, _ in matches.values()}:
        best = claims[file][max(claims[file])]
        if len(best) == 1:
            matches[best[0]] = file, False
    return matches


def stays_inside(name: str) -> bool:
    """Returns whether a path leads into the folder that it is relative to."""
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


# `_Files`: files by the ends of their paths, exact (True) or case-folded. `_Likeness` of a name and
# a path: whether the base name is whole, how many parts are equal, whether they are exactly equal.
_Files = dict[tuple[bool, str], list[str]]
_Likeness = tuple[bool, int, bool]


def _ends(parts: list[str]) -> Iterator[tuple[int, str]]:
    """Yields the ends of a path, the longest first, and their numbers of parts."""
    return ((count, "/".join(parts[-count:])) for count in range(len(parts), 0, -1))


def _meant(name: str, by_end: _Files) -> list[tuple[str, _Likeness]]:
    """Returns the file with the base name and the longest common end, if it is the only one."""
    path = name.replace("\\", "/")
    try:
        url = urlsplit(path)
    except ValueError:
        return []
    matches: dict[_Likeness, set[str]] = defaultdict(set)
    for form in (path, unquote(url.path), unquote(url.query.rpartition("=")[2])):
        *above, base = form.split("/")
        for base_name in {base, UPLOAD.sub("", base)}:
            keys = (
                (count, literal, key)
                for count, end in _ends([*above, base_name])
                for literal, key in ((True, end), (False, _key(end)))
            )
            for count, literal, key in keys:
                if files := by_end.get((literal, key)):
                    matches[base_name == base, count, literal].update(files[:2])
                    break
    best = max(matches, default=(False, 0, False))
    return [(file, best) for file in matches[best]] if len(matches[best]) == 1 else []


def measure(
    images: list[Json], folder: Path, notes: Findings, faults: Findings
) -> tuple[list[Json], dict[str, int], dict[str, bytes]]:
    """Reads the image files; returns the images that are readable, with their upright sizes.

    Also returns the EXIF orientations of images that are annotated as stored, not upright, by
    `repr` of the id; and hashes of the files by name. If the stored and the upright image have the
    same size, annotations are of the upright one, which tools show.
    """
    paths = [str(folder / image["file_name"]) for image in images]
    intact, turned, digests = [], {}, {}
    for image, file in zip(images, check_readable(paths, skip=True), strict=True):
        if file.why:
            faults.add(f"unreadable image files ({file.why})", image["file_name"])
            continue
        size, number = _upright(file)
        stored = size[::-1] if number > 4 else size
        annotated = image.get("height"), image.get("width")
        if not all(type(side) is int and side > 0 for side in annotated):
            notes.add("sizes read from the files", f"width={short(annotated[1])}")
        elif annotated == stored != size:
            turned[repr(image.get("id"))] = number
            notes.add("annotated as stored, turned upright by EXIF", image["file_name"])
        elif annotated != size:
            height, width = map(short, annotated)
            sizes = f"{width} x {height} pixels, of the file {size[1]} x {size[0]}"
            faults.add("expected the size of the image file", f"{image['file_name']}: {sizes}")
            continue
        intact.append({**image, "height": size[0], "width": size[1]})
        digests[image["file_name"]] = file.digest
    first: dict[bytes, str] = {}
    for name, digest in digests.items():
        if (other := first.setdefault(digest, name)) != name:
            notes.add("image files that are equal, each with its own objects", f"{name} = {other}")
    return intact, turned, digests


def _upright(file: ImageFile) -> tuple[tuple[int, int], int]:
    """Returns the height and width of the upright image, and the EXIF orientation of the file."""
    from zoo.data.crops import HEAD, ORIENTATION, orientation

    with needs_extra("detection"):
        from PIL import Image
    height, width = file.height, file.width
    with open(file.path, "rb") as opened:
        head = opened.read(HEAD)
    if not head.startswith((JPEG, PNG)):  # converted, and so upright
        with Image.open(file.path) as image:
            return (height, width), image.getexif().get(ORIENTATION, 1)
    number = int(orientation(head)) if b"Exif" in head or b"eXIf" in head else 1
    return ((width, height) if number > 4 else (height, width)), number
