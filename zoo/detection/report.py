"""Average precision of detectors, compared with the paper."""

import contextlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.detection.coco import Json
from zoo.errors import needs_extra, printable
from zoo.files import atomic_write

with needs_extra("detection"):
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

RESULTS, DETECTIONS = "evaluation.json", "detections.json"
# In the order of pycocotools' summary.
FIGURES = ("AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large")
KINDS = {"box": "bbox", "mask": "segm"}  # by pycocotools' names
CERTAIN = 0.5  # minimum score and overlap of objects that count as found

Figures = Mapping[str, Mapping[str, float | None]]

# Table 6: AP, small, medium and large, of boxes and of masks.
TABLE_6 = {
    "resnet_rs101_no_se": ((48.2, 29.9, 50.9, 64.9), (42.6, 24.2, 45.6, 60.0)),
    "resnet_rs101": ((48.5, 29.9, 51.5, 65.3), (42.8, 24.0, 46.0, 60.2)),
    "lambda_resnet101": ((49.4, 31.7, 52.2, 65.6), (43.5, 25.9, 46.5, 60.8)),
    "resnet_rs152_no_se": ((48.9, 29.9, 51.8, 66.0), (43.2, 24.2, 46.1, 61.2)),
    "resnet_rs152": ((49.4, 30.0, 52.3, 66.7), (43.5, 24.6, 46.8, 61.8)),
    "lambda_resnet152": ((50.0, 31.8, 53.4, 67.0), (43.9, 25.5, 47.3, 62.0)),
}


@dataclass(frozen=True)
class Evaluation:
    """Average precision of a detector on test images.

    Attributes:
        figures: `FIGURES` of boxes, and of masks if there are any, in percent; None where there
            are no such objects.
        by_category: AP of boxes, AP of masks (None without masks), and number of objects, by
            category id.
        by_image: F1 of the boxes, from 0 (all wrong) to 1, by image id; boxes count with a score
            and an overlap of at least 0.5.
    """

    figures: Figures
    by_category: Mapping[int, tuple[float | None, float | None, int]]
    by_image: Mapping[int, float]


def evaluate(annotations: Json, found: Sequence[Json], masks: bool) -> Evaluation:
    """Compares detections with annotations, by pycocotools.

    As usual, annotated objects are small, medium or large by their `area`, the area of the mask if
    there is one; detected boxes and masks by their own area.

    Args:
        annotations: Annotations in COCO's format.
        found: Detections of all images, in the form of `zoo.detection.task.to_coco`.
        masks: Whether masks are compared, too.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        truth: Any = COCO()
        truth.dataset = annotations
        truth.createIndex()
        runs = {}
        name: Any
        for kind, name in KINDS.items():
            if kind == "mask" and not masks:
                continue
            # If boxes are left in, pycocotools uses their areas for masks.
            left_out = "bbox" if kind == "mask" else "segmentation"
            results = [{k: v for k, v in one.items() if k != left_out} for one in found]
            runs[kind] = COCOeval(truth, truth.loadRes(results) if results else COCO(), name)
            runs[kind].evaluate()
            runs[kind].accumulate()
            runs[kind].summarize()
    figures = {
        kind: {name: _percent(run.stats[place]) for place, name in enumerate(FIGURES)}
        for kind, run in runs.items()
    }
    counts = {
        number: sum(not one["iscrowd"] for one in truth.loadAnns(truth.getAnnIds(catIds=[number])))
        for number in truth.getCatIds()
    }
    by_category = {
        number: (
            _of_category(runs["box"], place),
            _of_category(runs["mask"], place) if masks else None,
            counts[number],
        )
        for place, number in enumerate(map(int, runs["box"].params.catIds))
    }
    return Evaluation(figures, by_category, _by_image(runs["box"]))


def line(figures: Figures) -> str:
    """Formats all averages in one line."""
    return "  ".join(f"{kind} AP {_cell(values['AP'])}" for kind, values in figures.items())


def print_tables(result: Evaluation, categories: Mapping[int, str], name: str, title: str) -> None:
    """Prints the results next to Table 6, and the categories, the worst first.

    Args:
        result: Results of the evaluation.
        categories: Names of the categories by their ids.
        name: Name of the backbone in the zoo.
        title: Title of the first table.
    """
    table = Table("", *(Column(figure.replace("_", " "), justify="right") for figure in FIGURES))
    for place, kind in enumerate(result.figures):
        table.add_row(kind, *(_cell(result.figures[kind][figure]) for figure in FIGURES))
        if name in TABLE_6:
            ap, *sizes = map(str, TABLE_6[name][place])
            table.add_row(f"{kind}, Table 6", ap, "", "", *sizes)
    console = Console()
    console.print(f"\n{title}", table, sep="\n", highlight=False)
    console.print(
        "Small, medium, large: under 32 x 32 pixels, under 96 x 96, and above; by the area of the "
        "annotation, of found boxes by width x height"
        + (", of found masks by their pixels." if "mask" in result.figures else "."),
        highlight=False,
    )
    heads = [*(f"{kind} AP" for kind in result.figures), "objects"]
    rows = Table("category", *(Column(head, justify="right") for head in heads))
    for number, (*averages, objects) in sorted(
        result.by_category.items(), key=lambda item: np.inf if item[1][0] is None else item[1][0]
    ):
        cells = [_cell(average) for average in averages[: len(result.figures)]]
        rows.add_row(Text(printable(categories[number])), *cells, f"{objects:,}")
    console.print(rows, highlight=False)


def write(
    result: Evaluation,
    found: Sequence[Json],
    categories: Mapping[int, str],
    settings: Mapping[str, Any],
    folder: Path,
) -> None:
    """Writes the results with the settings of the command, and all detections in COCO's format."""
    figures = {
        "settings": settings,
        **result.figures,
        "categories": [
            {
                "id": number,
                "name": categories[number],
                **dict(zip(result.figures, averages, strict=False)),
                "objects": objects,
            }
            for number, (*averages, objects) in result.by_category.items()
        ],
    }
    for name, content in ((RESULTS, figures), (DETECTIONS, list(found))):
        with atomic_write(folder / name) as path:
            path.write_text(json.dumps(content, indent=None if name == DETECTIONS else 1) + "\n")


def _of_category(run: COCOeval, place: int) -> float | None:
    """Returns the AP of a category, for all areas and at most 100 objects per image."""
    precision = run.eval["precision"][:, :, place, 0, -1]
    known = precision[precision > -1]
    return _percent(known.mean()) if known.size else None


def _by_image(run: COCOeval) -> dict[int, float]:
    """Returns the F1 of the boxes of every image."""
    (overlap,) = np.flatnonzero(np.isclose(run.params.iouThrs, CERTAIN))
    everything = run.params.areaRng[0]
    right, wrong = dict.fromkeys(run.params.imgIds, 0), dict.fromkeys(run.params.imgIds, 0)
    for one in filter(None, run.evalImgs):
        if one["aRng"] != everything:
            continue
        counted = (np.array(one["dtScores"]) >= CERTAIN) & ~one["dtIgnore"][overlap].astype(bool)
        matched = (one["dtMatches"][overlap] > 0) & counted
        objects = int((~np.array(one["gtIgnore"], bool)).sum())
        right[one["image_id"]] += int(matched.sum())
        wrong[one["image_id"]] += int(counted.sum() - matched.sum())  # false positives
        wrong[one["image_id"]] += objects - int(matched.sum())  # false negatives
    return {
        int(number): 2 * right[number] / (2 * right[number] + wrong[number])
        if right[number]
        else float(not wrong[number])
        for number in run.params.imgIds
    }


def _percent(value: Any) -> float | None:
    """Converts pycocotools' fraction to percent; -1, for no objects, to None."""
    return None if value < 0 else round(100 * float(value), 2)


def _cell(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.1f}"
