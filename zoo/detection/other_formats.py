"""Names of the formats of files that are often passed in place of COCO's objects."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# By the beginning of a file.
BEGINNINGS = {
    rb"\s*\Z": "an empty file",
    rb"PK\x03\x04|\x1f\x8b": "an archive, to be unpacked first",
}
SUFFIXES = {
    ".xml": "XML, as of Pascal VOC",
    ".txt": "text, as labels of YOLO",
    ".yaml": "YAML, as of YOLO",
    ".yml": "YAML, as of YOLO",
}
# By keys that a JSON object or the first entry of a list has, and keys that it lacks.
JSON: tuple[tuple[set[str], set[str], str], ...] = (
    ({"image_id", "score"}, set(), "a list of detections, without images and categories"),
    ({"image_id", "caption"}, set(), "a list of captions"),
    ({"data", "annotations"}, set(), "Label Studio's own JSON (export as COCO)"),
    ({"shapes", "imagePath"}, set(), "labelme's own JSON (its labelme2coco.py converts it)"),
    ({"_via_img_metadata"}, set(), "VIA's own JSON (export as COCO)"),
    ({"images", "categories"}, {"annotations"}, "images without annotations"),
)
# By keys of annotations without boxes and masks.
ANNOTATIONS = {
    "segments_info": "panoptic segmentation (panopticapi's panoptic2detection_coco_format.py "
    "converts it)",
    "caption": "captions of images, without boxes",
    "keypoints": "keypoints without boxes",
}


def identify_annotations(annotations: Any) -> str:
    """Names the format of annotations without boxes and masks, "" if it is unknown."""
    if not isinstance(annotations, list):
        return ""
    entries = [entry for entry in annotations if isinstance(entry, Mapping)]
    if any(entry.get("bbox") or entry.get("segmentation") for entry in entries):
        return ""
    return next((what for key, what in ANNOTATIONS.items() if any(key in e for e in entries)), "")


def identify_file(path: Path) -> str:
    """Names the format of a file or folder that is not COCO's, "" if it is unknown."""
    if path.is_dir():
        paths = sorted(path.iterdir())
        files = [file.name for file in paths if file.suffix == ".json"]
        if files:
            return f"a folder, with {files[0]!r}"
        whats = (SUFFIXES[end] for file in paths if (end := file.suffix.lower()) in SUFFIXES)
        return next((f"a folder of {what}" for what in whats), "")
    try:
        content = path.read_bytes()
        value = json.loads(content)
    except OSError:
        return ""
    except (ValueError, RecursionError):
        known = (what for start, what in BEGINNINGS.items() if re.match(start, content))
        return next(known, SUFFIXES.get(path.suffix.lower(), ""))
    if isinstance(value, dict) and (what := identify_annotations(value.get("annotations"))):
        return what
    first = value[0] if isinstance(value, list) and value else value
    keys = first.keys() if isinstance(first, dict) else set[str]()
    for required, lacking, what in JSON:
        if required <= keys and not lacking & keys:
            return what
    return "a list, not images, annotations and categories" if isinstance(value, list) else ""
