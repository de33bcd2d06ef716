"""COCO files as tools write them, in COCO's own form: ids, numbers, polygons, file names, sizes.

Label Studio, Roboflow, CVAT, labelme, FiftyOne and pandas each differ from COCO in some of them.
"""

import itertools
import json
import math
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Mapping
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
IMAGE_IDS, CATEGORY_IDS = range(2**63), range(1, 10_001)  # those of categories index outputs
FLAGS = {"none": 0, "": 0, "false": 0, "0": 0, "0.0": 0, "true": 1, "1": 1, "1.0": 1}
# Keys of an image's file, in order, and the random prefix of an upload.
NAMES = ("file_name", "filename", "path", "file_path", "coco_url", "url", "flickr_url")
UPLOAD = re.compile(r"^[0-9a-f]{4,}-(?=.)", re.IGNORECASE)


class Findings(dict[str, tuple[int, str]]):
    """Counts and first examples by kind."""

    def add(self, kind: str, example: object) -> None:
        """Counts one more of a kind."""
        count, first = self.get(kind, (0, str(example)))
        self[kind] = count + 1, first

    def lines(self) -> list[str]:
        """Formats a line for each kind."""
        return [f"{kind} ({count}, such as {one})" for kind, (count, one) in self.items()]


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


def _numbers(value: Any) -> Any:
    value = _parsed(value)
    return [*map(_number, value)] if isinstance(value, list) else value


def _rle(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    lists = ((key, _parsed(value.get(key))) for key in ("size", "counts"))
    return {key: [*map(whole, one)] if isinstance(one, list) else one for key, one in lists}


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
    return [
        _numbers([x for point in part for x in (point if isinstance(point, list) else [point])])
        if isinstance(part, list)
        else part
        for part in value
    ]


def _intact(value: Any) -> Any:
    is_polygons = isinstance(value, list) and not any(isinstance(part, dict) for part in value)
    return [*filter(_is_polygon, value)] if is_polygons else value


# Lists and fields, how to read them, and the note if that changes them.
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

    Entries get a `file_id`, the id of the file, where the `id` is another one.
    """
    for one in itertools.chain(*content.values()):
        one |= {key: None for key, value in one.items() if value != value}  # NaN of pandas
    for name, field, read, words in KINDS:
        for one in content[name]:
            after, before = read(one.get(field)), one.get(field)
            if after is not before and (after != before or type(after) is not type(before)):
                one[field] = after
                notes.add(words, f"{field}={short(before)}")
    annotations = content["annotations"]
    _number_ids(content["images"], annotations, "image_id", IMAGE_IDS, notes)
    _number_ids(content["categories"], annotations, "category_id", CATEGORY_IDS, notes)
    content["categories"][:] = _merged(content["categories"], annotations, notes)
    # One area that most boxes cannot have is a dummy.
    areas = {str(one.get("area")) for one in annotations}
    if len(areas) == 1 < len(annotations) and 2 * sum(map(_fits, annotations)) < len(annotations):
        for one in annotations:
            one["area"] = f"{one.get('area')} of all"


def _fits(one: Json) -> bool:
    try:
        _, _, width, height = one["bbox"]
        return 0.25 * width * height <= one["area"] <= width * height
    except (KeyError, TypeError, ValueError):
        return False


def _number_ids(
    entries: list[Json], annotations: list[Json], key: str, allowed: range, notes: Findings
) -> None:
    """Replaces ids that are not allowed by the lowest free numbers."""
    own = [whole(one.get("id")) for one in entries]
    taken = {i for i in own if type(i) is int and i in allowed}
    free = (number for number in itertools.count(1) if number not in taken)
    numbers: dict[Id, int] = {}
    for one, i in zip(entries, own, strict=True):
        if type(i) not in (int, str) or i == "":
            continue
        if i not in numbers:
            numbers[i] = i if i in taken else next(free)
        before, one["id"] = one["id"], numbers[i]
        if isinstance(before, str) or i != numbers[i]:
            one["file_id"] = before
        if type(before) is not int or before != numbers[i]:
            notes.add(
                f"{key} numbered, results have the file's", f"{short(before)} as {numbers[i]}"
            )
    assigned = set(numbers.values())
    for one in annotations:
        i = whole(one.get(key))
        if type(i) in (int, str):
            one[key] = numbers.get(i, str(i) if i in assigned else i)


def _merged(categories: list[Json], annotations: list[Json], notes: Findings) -> list[Json]:
    """Merges repeated categories; an unused one gives way to another one of its id or name."""
    used = {repr(one.get("category_id")) for one in annotations}
    kept: dict[tuple[str, str], Json] = {}
    for one in categories:
        if kept.setdefault((repr(one.get("id")), repr(one.get("name"))), one) is not one:
            notes.add("repeated categories merged", short(one.get("name")))
    for number, name in list(kept):
        rivals = [pair for pair in kept if (pair[0] == number) != (pair[1] == name)]
        if rivals and number not in used:
            del kept[number, name]
            kind = "unused categories with the id or name of another one left out"
            notes.add(kind, f"{number} {name}")
    return [*kept.values()]


def find_files(images: list[Json], folder: Path, notes: Findings, faults: Findings) -> list[Json]:
    """Returns the images that have a file in the folder, with its path there as `file_name`.

    Paths of other machines, URLs and names of uploads are matched by a base name that one file has.
    """
    names = [next((one[key] for key in NAMES if one.get(key)), None) for one in images]
    names = [name if isinstance(name, str) else "" for name in names]
    exact = {name for name in names if stays_inside(name) and os.path.lexists(folder / name)}
    by_name: dict[str, list[str]] = defaultdict(list)
    if set(names) - exact:
        for place, folders, files in os.walk(folder):
            folders[:] = [name for name in folders if not is_litter(name)]
            for file in files:
                by_name[_key(file)].append(Path(place, file).relative_to(folder).as_posix())
    matches: dict[str, str | None] = {name: name for name in exact}
    taken, found = set(exact), []
    for one, name in zip(images, names, strict=True):
        if name not in matches:
            matches[name] = _match(name, by_name, taken)
            taken.add(matches[name] or "")
        if (file := matches[name]) is None:
            faults.add(
                "expected file_name to be a file of the folder, by its path or by a base name that "
                "one file has (rename the files, or file_name in the JSON)",
                f"image {short(one.get('id'))}: file_name={name[-80:]!r}",
            )
            continue
        if file != one.get("file_name"):
            notes.add("file_name matched by base name", f"{name[-80:]!r} as {file!r}")
        found.append({**one, "file_name": file})
    return found


def stays_inside(name: str) -> bool:
    """Returns whether a path leads into the folder that it is relative to."""
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _match(name: str, by_name: Mapping[str, list[str]], taken: set[str]) -> str | None:
    """Returns the only file with the base name and the longest common end of the path."""
    path = name.replace("\\", "/")
    try:
        url = urlsplit(path)
    except ValueError:
        return None
    for form in (path, unquote(url.path), unquote(url.query.rpartition("=")[2])):
        parts = form.split("/")
        for base in (parts[-1], UPLOAD.sub("", parts[-1])):
            files = [file for file in by_name.get(_key(base), []) if file not in taken]
            ends = [_common_end(file.split("/"), parts) for file in files]
            if ends.count(max(ends, default=0)) == 1:
                return files[ends.index(max(ends))]
    return None


def _common_end(one: list[str], two: list[str]) -> int:
    pairs = zip(reversed(one), reversed(two), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def measure(
    images: list[Json], folder: Path, notes: Findings, faults: Findings
) -> tuple[list[Json], dict[str, int]]:
    """Reads the files; returns the images with a readable one, and their sizes upright.

    Also returns the EXIF orientations of images that are annotated as they are stored, not upright,
    by `repr` of the id. Where both frames have the same size, annotations are of the upright image,
    which tools show.
    """
    paths = [str(folder / one["file_name"]) for one in images]
    intact, turned = [], {}
    for one, file in zip(images, check_readable(paths, skip=True), strict=True):
        if file.why:
            faults.add(f"unreadable image files ({file.why})", one["file_name"])
            continue
        size, number = _upright(file)
        stored = size[::-1] if number > 4 else size
        given = one.get("height"), one.get("width")
        if not all(type(side) is int and side > 0 for side in given):
            notes.add("sizes read from the files", f"width={short(given[1])}")
        elif given == stored != size:
            turned[repr(one.get("id"))] = number
            notes.add("annotated as stored, turned upright by EXIF", one["file_name"])
        elif given != size:
            sizes = f"{given[1]} x {given[0]} pixels, of the file {size[1]} x {size[0]}"
            faults.add("expected the size of the image file", f"{one['file_name']}: {sizes}")
            continue
        intact.append({**one, "height": size[0], "width": size[1]})
    return intact, turned


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
