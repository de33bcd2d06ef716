"""A small detector, trained, interrupted, evaluated, exported and run. Takes minutes."""

import contextlib
import json
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import yaml
from PIL import Image
from support.detectors import settings, turned

from zoo.detection import coco, convert, export, shards
from zoo.detection.config import DetectionConfig
from zoo.detection.detector import Detector
from zoo.detection.train import train
from zoo.evaluate import __main__ as evaluate
from zoo.predict import __main__ as predict

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("detector")]


@pytest.fixture(scope="module")
def finished(sharded, tmp_path_factory):
    """The folder of a finished run, and what its `train` has returned."""
    folder = tmp_path_factory.mktemp("runs") / "detector"
    return folder, train(DetectionConfig(**settings(sharded, folder)))


def test_run_folder_is_complete(finished):
    folder, metrics = finished
    files = {"config.yaml", "metrics.json", "predictions.png", "records.json"}
    assert {path.name for path in folder.iterdir()} == files | {"checkpoints"}
    assert json.loads((folder / "metrics.json").read_text()) == metrics
    assert metrics["test"]["box"].keys() == metrics["test"]["mask"].keys()
    assert metrics["categories"] == {"1": "disc", "2": "square", "3": "triangle"}
    assert tf.train.latest_checkpoint(str(folder / "checkpoints")).endswith("ckpt-4")


def test_shards_and_images_give_the_same(finished, sharded):
    """The pipeline of evaluation and the exported module prepare images alike."""
    detector, files = Detector.from_run(finished[0]), shards.pattern(sharded, shards.TEST)
    found = [one for batch in detector.detect_batches(detector.batches(files, 4)) for one in batch]
    images = shards.read_images(files)
    assert {one["image_id"] for one in found} <= images.keys()
    for number, image in list(images.items())[:3]:
        alone = detector.detect(image, number)
        together = [one for one in found if one["image_id"] == number]
        assert len(alone) == len(together)
        for key, atol in (("bbox", 0.02), ("score", 1e-4)):
            values = ([one[key] for one in every] for every in (alone, together))
            np.testing.assert_allclose(*values, atol=atol)


def test_a_set_of_boxes_as_tools_write_it(drawn, tmp_path, capsys):
    """Ids from 0 and of text, upload prefixes, WebP, EXIF, no sizes: through every command."""
    content = json.loads((drawn / "val.json").read_text())
    for one in content["categories"]:
        one["id"] -= 1
    for one in content["annotations"]:
        one |= {"category_id": one["category_id"] - 1, "image_id": f"task {one['image_id']}"}
    for one in content["images"]:
        form, options = ("WEBP", {}) if one["id"] % 2 else ("JPEG", {"exif": turned(6)})
        with Image.open(drawn / "val" / one["file_name"]) as image:
            image.save(tmp_path / f"a1b2c3d4-{one['file_name']}", form, **options)
        one |= {"id": f"task {one['id']}", "file_name": f"upload\\1\\a1b2c3d4-{one['file_name']}"}
        del one["height"], one["width"]
    (tmp_path / "export.json").write_text(json.dumps(content), "utf-8-sig")
    part = coco.read(tmp_path / "export.json", tmp_path, masks=False)
    convert.write(*convert.join(part, part), tmp_path / "shards", 1)
    metrics = train(DetectionConfig(**settings(tmp_path / "shards", tmp_path / "run")))
    assert metrics["test"].keys() == {"box"}
    run = ["--run", str(tmp_path / "run")]
    capsys.readouterr()
    evaluate.main([*run, "--output", str(tmp_path / "evaluation")])
    assert "mask" not in capsys.readouterr().out
    written = json.loads((tmp_path / "evaluation" / "evaluation.json").read_text())
    assert written["box"] == metrics["test"]["box"]
    found = json.loads((tmp_path / "evaluation" / "detections.json").read_text())
    assert {one["image_id"] for one in found} <= {one["id"] for one in content["images"]}
    assert 0 in {one["category_id"] for one in found} <= {0, 1, 2}
    photo = str(next(tmp_path.glob("*.jpg")))
    predict.main([*run, photo, "--threshold", "0", "--output", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())
    assert {one["category_id"] for one in found} <= {0, 1, 2}
    folder = export.run(export.ExportConfig(run=tmp_path / "run", output=tmp_path / "exports"))
    card = (folder / "model_card.md").read_text()
    assert "mask" not in card.lower()
    assert f"| Box AP | {metrics['test']['box']['AP']} (12 test images) |" in card
    # The card's lines run in its folder.
    Image.open(photo).save(folder / "photo.jpg")
    with contextlib.chdir(folder):
        exec(card.split("```python")[1].split("```")[0], {})


def test_other_categories_are_refused(finished, sharded, tmp_path):
    dataset = json.loads((sharded / "dataset.json").read_text())
    dataset["categories"]["1"] = "circle"
    (tmp_path / "dataset.json").write_text(json.dumps(dataset))
    with pytest.raises(ValueError, match=r"data\.dir: expected the categories of the detector"):
        evaluate.main(["--run", str(finished[0]), "--data.dir", str(tmp_path)])


def start(config, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "zoo.train", "--config", str(file)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_interrupted_run_is_saved(sharded, tmp_path):
    given = settings(sharded, tmp_path / "run", steps=12, evaluation_steps=12)
    given["training"]["checkpoint_steps"] = 100  # one after step 2, and no other
    with start(given, tmp_path) as process:
        while "step 4/12" not in (process.stdout.readline() or process.stderr.read()):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert process.returncode == 1
    (line,) = [line for line in errors.splitlines() if line.startswith("stopped at step ")]
    step = int(line.split()[3].rstrip(";"))
    assert 2 < step < 12
    checkpoints = str(tmp_path / "run" / "checkpoints")
    assert tf.train.latest_checkpoint(checkpoints).endswith(f"-{step}")
    with start(given, tmp_path) as process:
        out, errors = process.communicate()
    assert process.returncode == 0, errors[-2000:]
    assert f"resuming after step {step} of 12" in out
    assert f"step {step}/12" not in out
    last = tf.train.latest_checkpoint(checkpoints)
    names = dict(tf.train.list_variables(last))
    assert any("network_variables" in name and "OPTIMIZER" in name for name in names)
    steps = tf.train.load_checkpoint(last).get_tensor("optimizer/iter/.ATTRIBUTES/VARIABLE_VALUE")
    assert steps == 12


TWO_CPUS = """
import sys
sys.path[:0] = ["tests"]
from support.loopback import virtual_cpus
virtual_cpus(2)
from zoo.train.__main__ import main
main(sys.argv[1:])
"""


def test_two_devices_train_and_go_on(sharded, tmp_path):
    file, metrics = tmp_path / "config.yaml", tmp_path / "run" / "metrics.json"
    command = [sys.executable, "-c", TWO_CPUS, "--config", str(file), "--strategy", "mirrored"]
    given = settings(sharded, tmp_path / "run", precision="mixed_bfloat16")
    heads = given["model"]["heads"]
    heads["roi_generator"]["use_batched_nms"] = False
    heads["detection_generator"]["nms_version"] = "v2"
    file.write_text(yaml.safe_dump(given))
    for said in ("CPU, 2 replica(s)", "resuming after step 4 of 4"):
        metrics.unlink(missing_ok=True)  # as if it had been killed at the very end
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        assert said in done.stdout
        assert metrics.is_file()
