"""Average precision of detectors, by pycocotools."""

import contextlib
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo.detection.coco import Json
from zoo.detection.shards import MOST_OBJECTS
from zoo.errors import needs_extra

with needs_extra("detection"):
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

# IoU thresholds and areas, as indices of pycocotools' results; AR is the recall over all of them.
FIGURES = {
    "AP": (slice(None), 0),
    "AP50": (slice(0, 1), 0),
    "AP75": (slice(5, 6), 0),
    "AP_small": (slice(None), 1),
    "AP_medium": (slice(None), 2),
    "AP_large": (slice(None), 3),
}
CERTAIN = 0.5  # minimum score and IoU of objects that count as found

Figures = Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True)
class Evaluation:
    """Average precision of a detector on test images, in percent; None without such objects."""

    figures: Figures  # `FIGURES` of boxes, and of masks if there are any
    categories: Sequence[Mapping[str, Any]]  # id, name, AP of the same kinds, number of objects
    by_image: Mapping[int, float]  # F1 of the boxes that are `CERTAIN`, from 0 to 1, by image id


def evaluate(annotations: Json, detections: Sequence[Json], masks: bool) -> Evaluation:
    """Compares detections, in COCO's format of results, with annotations.

    As usual, annotated objects are small, medium or large by their `area`, the area of the mask if
    there is one; detected boxes and masks by their own area. In an image, 100 detections of each
    category count, or as many as it has annotated objects if more.
    """
    counts = Counter(annotation["image_id"] for annotation in annotations["annotations"])
    limit = max([MOST_OBJECTS, *counts.values()])
    with contextlib.redirect_stdout(io.StringIO()):
        truth: Any = COCO()
        truth.dataset = annotations
        truth.createIndex()
        runs = {}
        for kind in ("box", "mask")[: 1 + masks]:
            # If boxes are left in, pycocotools uses their areas for masks.
            left_out = "bbox" if kind == "mask" else "segmentation"
            results = [
                {k: v for k, v in detection.items() if k != left_out} for detection in detections
            ]
            predicted = truth.loadRes(results) if results else COCO()
            run = COCOeval(truth, predicted, "segm" if kind == "mask" else "bbox")
            run.params.maxDets = [limit]
            run.evaluate()
            run.accumulate()
            runs[kind] = run
    figures = {}
    for kind, run in runs.items():
        precision, recall = run.eval["precision"], run.eval["recall"]
        figures[kind] = {
            name: _mean(precision[at, :, :, area]) for name, (at, area) in FIGURES.items()
        }
        figures[kind]["AR"] = _mean(recall[:, :, 0])
    objects = Counter(
        annotation["category_id"]
        for annotation in annotations["annotations"]
        if not annotation["iscrowd"]
    )
    categories = [
        {
            "id": number,
            "name": truth.cats[number]["name"],
            **{kind: _mean(run.eval["precision"][:, :, place, 0]) for kind, run in runs.items()},
            "objects": objects[number],
        }
        for place, number in enumerate(map(int, runs["box"].params.catIds))
    ]
    return Evaluation(figures, categories, _by_image(runs["box"]))


def line(figures: Figures) -> str:
    """Formats the AP of boxes and masks in one line."""
    averages = {kind: values["AP"] for kind, values in figures.items()}
    return "  ".join(
        f"{kind} AP {'-' if ap is None else format(ap, '.1f')}" for kind, ap in averages.items()
    )


def _by_image(run: COCOeval) -> dict[int, float]:
    """Returns the F1 of the boxes of every image."""
    (overlap,) = np.flatnonzero(np.isclose(run.params.iouThrs, CERTAIN))
    everything = run.params.areaRng[0]
    right, total = Counter(), Counter()  # total: detections and annotated objects
    for cell in filter(None, run.evalImgs):  # of a category, an area and an image
        if cell["aRng"] != everything:
            continue
        counted = (np.array(cell["dtScores"]) >= CERTAIN) & ~cell["dtIgnore"][overlap].astype(bool)
        matched = (cell["dtMatches"][overlap] > 0) & counted
        right[cell["image_id"]] += int(matched.sum())
        total[cell["image_id"]] += int(counted.sum() + (~np.array(cell["gtIgnore"], bool)).sum())
    return {
        int(number): 2 * right[number] / total[number] if total[number] else 1.0
        for number in run.params.imgIds
    }


def _mean(values: np.ndarray) -> float | None:
    """Returns the mean of pycocotools' fractions in percent; -1 stands for no objects."""
    known = values[values > -1]
    return round(100 * float(known.mean()), 2) if known.size else None
