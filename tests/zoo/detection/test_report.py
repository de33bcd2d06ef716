"""Average precision by hand, what is said of it, and the best and the worst test images."""

import copy
import json

import numpy as np
import pytest

from zoo.detection import evaluate, report
from zoo.detection.coco import encode_mask
from zoo.evaluate.report import write_json

SIZE = 200
FIGURES = (*report.FIGURES, "AR")


def rectangle(left, top, width, height):
    pixels = np.zeros((SIZE, SIZE), "uint8", order="F")
    pixels[top : top + height, left : left + width] = 1
    return pixels


def annotation(number, image, category, box, crowd=0):
    pixels = rectangle(*box)
    pixels[box[1], box[0]] = 0  # masks are smaller than boxes
    one = {"id": number, "image_id": image, "category_id": category, "bbox": list(box)}
    return {**one, "area": int(pixels.sum()), "iscrowd": crowd, "segmentation": encode_mask(pixels)}


# Image 1: a small and a large object; image 2: a medium one of another category; image 3: none.
ANNOTATIONS = [
    annotation(1, 1, 1, (10, 10, 20, 20)),
    annotation(2, 1, 1, (60, 60, 120, 120)),
    annotation(3, 2, 4, (20, 30, 50, 60)),
    annotation(4, 2, 1, (100, 100, 90, 90), crowd=1),
]


@pytest.fixture
def truth():
    return {
        "images": [{"id": i, "file_name": "", "height": SIZE, "width": SIZE} for i in (1, 2, 3)],
        "annotations": copy.deepcopy(ANNOTATIONS),
        "categories": [{"id": 1, "name": "disc"}, {"id": 4, "name": "star\x1b"}],
    }


def found(numbers=(1, 2, 3), score=0.9, among=ANNOTATIONS):
    keys = ("image_id", "category_id", "bbox", "segmentation")
    chosen = [copy.deepcopy(one) for one in among if one["id"] in numbers]
    return [{key: one[key] for key in keys} | {"score": score} for one in chosen]


def test_everything_found_is_a_hundred(truth):
    result = report.evaluate(truth, found(), masks=True)
    for kind in ("box", "mask"):
        assert result.figures[kind] == pytest.approx(dict.fromkeys(FIGURES, 100))
    assert result.categories == [
        {"id": 1, "name": "disc", "box": 100, "mask": 100, "objects": 2},
        {"id": 4, "name": "star\x1b", "box": 100, "mask": 100, "objects": 1},
    ]
    assert result.by_image == {1: 1, 2: 1, 3: 1}
    assert report.line(result.figures) == "box AP 100.0  mask AP 100.0"


@pytest.mark.parametrize(("overlap", "expected"), [(0.77, [60, 100, 100]), (0.72, [50, 100, 0])])
def test_overlaps_that_count(truth, overlap, expected):
    detections = found()
    for one in detections:
        one["bbox"][2] *= overlap
    figures = report.evaluate(truth, detections, masks=False).figures["box"]
    assert [figures[name] for name in ("AP", "AP50", "AP75")] == pytest.approx(expected)


def test_half_of_a_category_missed(truth):
    result = report.evaluate(truth, found((1, 3)), masks=True)
    # 51 of 101 recalls of category 1 are reached, all of category 4.
    expected = pytest.approx(100 * (51 / 101 + 1) / 2, abs=0.01)
    box = result.figures["box"]
    assert (box["AP"], result.figures["mask"]["AP50"]) == (expected, expected)
    assert (box["AP_small"], box["AP_large"]) == (100, 0)
    assert result.categories[0]["box"] == pytest.approx(100 * 51 / 101, abs=0.01)
    assert result.by_image == pytest.approx({1: 2 / 3, 2: 1, 3: 1})


def test_wrong_masks_are_no_wrong_boxes(truth):
    detections = found()
    for one in detections:
        one["segmentation"] = encode_mask(rectangle(0, 0, 5, 5))
    result = report.evaluate(truth, detections, masks=True)
    assert {kind: every["AP"] for kind, every in result.figures.items()} == {"box": 100, "mask": 0}
    assert [(one["box"], one["mask"]) for one in result.categories] == [(100, 0), (100, 0)]


def test_what_is_there_in_vain(truth):
    """Counts with a score from a half on; not in a crowd."""
    extra = {**found((1,))[0], "image_id": 3}
    inside = {**found((1,))[0], "image_id": 2, "bbox": [110, 110, 20, 20]}
    for score, others, expected in ((0.9, [], 0), (0.5, [], 0), (0.4, [inside], 1)):
        detections = [*found(), {**extra, "score": score}, *others]
        result = report.evaluate(truth, detections, masks=True)
        assert result.by_image == {1: 1, 2: 1, 3: expected}
    assert report.evaluate(truth, found(score=0.5), masks=False).by_image == {1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("count", [100, 101, 144])
def test_all_objects_of_an_image_have_room(truth, count):
    """COCO's own limit of 100 would leave the others unfound."""
    places = [(16 * (i % 12), 16 * (i // 12), 10, 10) for i in range(count)]
    truth["annotations"] = [annotation(i, 1, 1, box) for i, box in enumerate(places, start=1)]
    perfect = found(range(1, count + 1), among=truth["annotations"])
    figures = report.evaluate(truth, perfect, masks=False).figures["box"]
    assert figures["AP"] == figures["AR"] == 100


def test_nothing_found(truth, tmp_path, capsys):
    result = report.evaluate(truth, [], masks=True)
    assert result.figures["box"]["AP"] == result.figures["mask"]["AP"] == 0
    assert result.by_image == {1: 0, 2: 0, 3: 1}
    assert not capsys.readouterr().out  # pycocotools' own lines
    evaluate.print_tables(result, "lambda_resnet101", "A title")
    printed = capsys.readouterr().out
    assert "A title" in printed
    assert "49.4" in printed  # of Table 6
    assert "by the area of the annotation" in " ".join(printed.split())
    assert "star\\x1b" in printed
    write_json(tmp_path / "new", {"run": "here"}, {"categories": result.categories})
    written = json.loads((tmp_path / "new" / "evaluation.json").read_text())
    assert written["settings"] == {"run": "here"}
    assert written["categories"] == result.categories


def test_sizes_are_by_areas_of_their_own(truth):
    """A found box is large by its own area; the Model Garden's evaluator takes its mask's."""
    detections = [*found(), {**found((2,))[0], "bbox": [0, 0, 150, 150], "score": 0.95}]
    detections[-1]["segmentation"] = encode_mask(rectangle(0, 0, 10, 10))
    figures = report.evaluate(truth, detections, masks=True).figures
    # The box in vain is large, where it costs; its mask is small, and costs there.
    assert figures["box"]["AP_small"] == 100 > figures["box"]["AP_large"]
    assert figures["mask"]["AP_large"] == 100 > figures["mask"]["AP_small"]


def test_boxes_alone(truth, capsys):
    detections = found()
    for one in (*truth["annotations"], *detections):
        del one["segmentation"]
    result = report.evaluate(truth, detections, masks=False)
    assert result.figures == {"box": dict.fromkeys(FIGURES, pytest.approx(100))}
    assert result.categories[0] == {"id": 1, "name": "disc", "box": 100, "objects": 2}
    assert report.line(result.figures) == "box AP 100.0"
    evaluate.print_tables(result, "lambda_resnet101", "A title")
    assert "mask" not in capsys.readouterr().out
