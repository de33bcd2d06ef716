"""Every verb on a detector: the run in `tests/fixtures`, and what `zoo.publish` writes of it."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import requests
from PIL import Image
from support import needs, serving
from support.detectors import read_parts

from zoo import api
from zoo.cli.tasks import find_task
from zoo.detection import convert
from zoo.detection.detector import Detector, DetectorDescription, Published
from zoo.evaluate import __main__ as evaluate
from zoo.inference.source.published import read
from zoo.predict import __main__ as predict
from zoo.publish import __main__ as publish

needs.check("official")
decode = needs.package("pycocotools.mask").decode
mask_ops = needs.package("official.vision.ops.mask_ops")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("detector of the fixtures")]

ROOT = Path(__file__).parents[3]
RUN = ROOT / "tests" / "fixtures" / "detector_run"
CATEGORIES = {1: "disc", 2: "square", 4: "triangle"}
LABELS = "1: disc\n2: square\n4: triangle\n"
FILES = {"README.md", "labels.txt", "lambda_keras.json", "model.safetensors"}


@pytest.fixture(scope="module")
def detector() -> Detector:
    return api.load(RUN)


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "shapes"
    publish.main(["--run", str(RUN), str(folder), "--license", "CC-BY-4.0"])
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> list[Path]:
    """Two images of different sizes."""
    folder = tmp_path_factory.mktemp("photos")
    sizes = {"wide.png": (40, 80, 3), "tall.jpg": (90, 50, 3)}
    for name, size in sizes.items():
        pixels = np.random.default_rng(0).integers(0, 256, size, "uint8")
        Image.fromarray(pixels).save(folder / name)
    return [folder / name for name in sizes]


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> Path:
    """Drawn shapes with the categories of the detector."""
    from tools import shapes

    folder = tmp_path_factory.mktemp("shapes")
    shapes.write(folder / "coco", 4, 4, 64)
    numbers = {name: number for number, name in CATEGORIES.items()}
    parts = (part.renumbered(numbers) for part in read_parts(folder / "coco"))
    convert.write(*parts, folder / "shards", 2)
    return folder / "shards"


def test_run_of_november_2026():
    image = np.random.default_rng(0).integers(0, 256, (3, 40, 80, 3)).astype("uint8")[0]
    found = Detector.from_run(RUN).detect(image)
    expected = json.loads((RUN.parent / "outputs.json").read_text())["detections"]
    assert [one["category_id"] for one in found] == [one["category_id"] for one in expected]
    for name in ("score", "bbox"):
        wanted = [one[name] for one in expected]
        np.testing.assert_allclose([one[name] for one in found], wanted, atol=1e-3)
    assert all(one["segmentation"]["size"] == [40, 80] for one in found)


def test_published_folder(published):
    assert {path.name for path in published.iterdir()} == FILES
    assert (published / "labels.txt").read_text() == LABELS
    card = (published / "README.md").read_text()
    assert "pipeline_tag: object-detection" in card
    assert "library_name: lambda_keras" in card
    assert "| Box AP | 1.5 (2 test images) |" in card
    assert "| License | CC-BY-4.0 |" in card
    assert "detector = load('shapes')" in card
    assert str(RUN.parent) not in card
    described, _ = read(str(published), DetectorDescription)
    assert described.categories == CATEGORIES
    assert find_task({"model": str(published)}) == "detection"


def test_published_detector_is_that_of_the_run(detector, published, photos):
    loaded = api.load(published)
    assert (loaded.title, loaded.image_size) == (detector.title, detector.image_size)
    assert all(map(np.array_equal, loaded.model.get_weights(), detector.model.get_weights()))
    found = [one(photos, threshold=0) for one in (detector, loaded)]
    for one, same in zip(*map(itertools.chain.from_iterable, found), strict=True):
        assert one["category_id"] == same["category_id"]
        assert one["score"] == pytest.approx(same["score"], abs=2e-5)  # sums in parallel
    assert len(found[0][0]) > 5


def test_images_may_be_files_or_pixels(detector, photos):
    path = photos[0]
    with Image.open(path) as image:
        found = [detector(one, threshold=0) for one in (path, image, np.asarray(image))]
    assert found[0] == found[1] == found[2]
    assert detector(path) == []  # scores are under 0.5
    with pytest.raises(ValueError, match="expected images less than 128 times as long as wide"):
        detector(np.zeros((1, 200, 3), "uint8"))


INTACT = r"expected an intact lambda_keras\.json.*"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "magic"}, f"{INTACT}task: "),
        ({"model": "lambda_resnet15"}, f"{INTACT}did you mean"),
        ({"overrides": {"weights": "/etc/passwd"}}, f"{INTACT}Received: weights"),
        ({"image_size": 65}, f"{INTACT}multiple of 64"),
        ({"categories": {"0": "disc"}}, rf"{INTACT}categories\.0"),
        ({"test_images": 0}, f"{INTACT}test_images: Input should be greater"),
        ({"sha256": "abc"}, f"{INTACT}sha256: String should match"),
        ({"code": "import os"}, f"{INTACT}code: Extra inputs are not permitted"),
        # Of another detector, which takes no memory:
        ({"overrides": {"stem": "rs", "filters": 2**16}}, "expected an array of shape"),
        ({"heads": {"decoder": {"fpn": {"num_filters": 2**16}}}}, "expected an array of shape"),
        ({"heads": {"decoder": {"magic": 3}}}, r"model\.heads: expected fields"),
        ({"masks": False}, "do not fit the model"),
        ({"categories": {"9": "disc"}}, "do not fit the model"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_description_that_cannot_be_or_is_of_another_is_refused(
    published, tmp_path, changes, message
):
    copy = shutil.copytree(published, tmp_path / "copy")
    path = copy / "lambda_keras.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ValueError, match=message) as caught:
        Published(str(copy)).load()
    assert "\n" not in str(caught.value) or INTACT not in message


def test_commands_take_runs_and_published_detectors(published, shards, photos, tmp_path, capsys):
    printed = []
    for source in (["--run", str(RUN)], ["--model", str(published)]):
        evaluation = tmp_path / source[0].strip("-")
        evaluate.main([*source, "--data.dir", str(shards), "--output", str(evaluation)])
        names = {path.name for path in evaluation.iterdir()}
        assert names == {"best.png", "detections.json", "evaluation.json", "worst.png"}
        printed.append([capsys.readouterr().out.splitlines()[-1]])
        output = tmp_path / "found.json"
        predict.main([*source, str(photos[0]), "--threshold", "0", "--output", str(output)])
        printed[-1] += [capsys.readouterr().out, output.read_text()]
    assert printed[0] == printed[1]
    assert printed[0][0].startswith("box AP ")
    assert "triangle, " in printed[0][1]
    with pytest.raises(ValueError, match=r"data\.dir: expected a folder of shards"):
        evaluate.main(["--model", str(published)])


def test_functions(published, shards, photos, detector):
    result = api.evaluate(published, {"dir": str(shards), "batch_size": 4})
    assert result.figures.keys() == {"box", "mask"}
    assert api.predict(published, photos[0], threshold=0) == detector(photos[0], threshold=0)
    with pytest.raises(ValueError, match=r"a run of classification\. Received: .*, of detection"):
        api.load_classifier(RUN)
    with pytest.raises(ValueError, match=r"data\.dri: no such setting"):
        api.evaluate(published, {"dri": "x"})
    with pytest.raises(ValueError, match="averaged: no such setting"):
        api.evaluate(published, {"dir": str(shards)}, averaged=False)
    with pytest.raises(ValueError, match=r"training\.epochs: no such setting"):
        api.train(task="detection", training={"epochs": 3})


def test_export_and_its_server(published, photos, detector, tmp_path):
    """The objects of the detector: masks are rounded."""
    exported = api.export(published, tmp_path)
    assert exported == tmp_path / "detector_lambda_resnet14" / "1"
    card = (exported / "model_card.md").read_text()
    url = "/v1/models/detector_lambda_resnet14:predict"
    assert all(text in card for text in (url, "image_bytes ", "`detection_masks`"))
    assert (exported / "labels.txt").read_text() == LABELS
    body = {"instances": [serving.b64(photo.read_bytes()) for photo in photos]}
    with serving.command(str(exported.parent)) as (_, address):
        request = {"signature_name": "image_bytes", **body}
        response = requests.post(address + url, json=request, timeout=600)
    rows, expected = response.json()["predictions"], detector(photos, threshold=0)
    for row, objects in zip(rows, expected, strict=True):
        columns = (row[name] for name in ("classes", "labels", "scores", "boxes", "masks"))
        # Score 0 is padding; boxes within the padding of the image are clipped to nothing.
        found = [one for one in zip(*columns, strict=True) if one[2] > 0 and min(one[3][2:]) > 0]
        for (number, label, score, box, mask), one in zip(found, objects, strict=True):
            assert (number, label) == (one["category_id"], one["name"])
            np.testing.assert_allclose([score, *box], [one["score"], *one["bbox"]], atol=2e-3)
            wanted = decode(one["segmentation"])
            assert wanted.shape == tuple(row["sizes"])
            masks, boxes = np.array([mask]) / 255, np.array([box])
            (found_mask,) = mask_ops.paste_instance_masks(masks, boxes, *row["sizes"])
            assert (found_mask != wanted).mean() < 0.005
