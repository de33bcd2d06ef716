"""A small detector, trained, interrupted, evaluated, exported and run. Takes minutes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import yaml
from PIL import Image
from support.detectors import settings

from zoo.config.detection import DetectionConfig
from zoo.detection import coco, convert, shards
from zoo.detection.detector import Detector
from zoo.detection.experiment import Task, create_experiment
from zoo.evaluate import __main__ as evaluate
from zoo.export import detection as export
from zoo.predict import __main__ as predict
from zoo.train.detection import train

PARTS = ("train", "val")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("detector")]


@pytest.fixture(scope="module")
def finished(sharded, tmp_path_factory):
    """The folder of a finished run, and what its `train` has returned."""
    folder = tmp_path_factory.mktemp("runs") / "detector"
    return folder, train(DetectionConfig(**settings(sharded, folder)))


@pytest.fixture
def photo(tmp_path) -> Path:
    noise = np.random.default_rng(0).integers(0, 256, (50, 80, 3)).astype("uint8")
    Image.fromarray(noise).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def read(photo: Path) -> np.ndarray:
    with Image.open(photo) as image:
        return np.array(image)


def test_run_folder_is_complete(finished):
    folder, metrics = finished
    assert sorted(path.name for path in folder.iterdir()) == [
        "checkpoints",
        "config.yaml",
        "metrics.json",
        "predictions.png",
        "records.json",
    ]
    assert json.loads((folder / "metrics.json").read_text()) == metrics
    assert metrics["test"]["box"].keys() == metrics["test"]["mask"].keys()
    assert metrics["categories"] == {"1": "disc", "2": "square", "3": "triangle"}
    assert tf.train.latest_checkpoint(str(folder / "checkpoints")).endswith("ckpt-4")


def test_shards_and_images_give_the_same(finished, sharded):
    """The pipeline of evaluation and the exported module prepare images alike."""
    detector, files = Detector.from_run(finished[0]), shards.pattern(sharded, shards.TEST)
    found = [one for batch in detector.detect_shards(files, 4) for one in batch]
    images = shards.read_images(files)
    assert {one["image_id"] for one in found} <= images.keys()
    for number, image in list(images.items())[:3]:
        alone = detector.detect(image, number)
        together = [one for one in found if one["image_id"] == number]
        assert len(alone) == len(together)
        np.testing.assert_allclose(
            [one["bbox"] for one in alone], [one["bbox"] for one in together], atol=0.02
        )
        np.testing.assert_allclose(
            [one["score"] for one in alone], [one["score"] for one in together], atol=1e-4
        )


def test_a_set_as_tools_write_it(drawn, tmp_path, capsys):
    """Ids from 0 and of text, upload prefixes, WebP, EXIF, no sizes: one step, and its results."""
    exif = Image.Exif()
    exif[0x0112] = 6
    content = json.loads((drawn / "val.json").read_text())
    for one in content["categories"]:
        one["id"] -= 1
    for one in content["annotations"]:
        one |= {"category_id": one["category_id"] - 1, "image_id": f"task {one['image_id']}"}
    for one in content["images"]:
        form, options = ("WEBP", {}) if one["id"] % 2 else ("JPEG", {"exif": exif})
        with Image.open(drawn / "val" / one["file_name"]) as image:
            image.save(tmp_path / f"a1b2c3d4-{one['file_name']}", form, **options)
        one |= {"id": f"task {one['id']}", "file_name": f"upload\\1\\a1b2c3d4-{one['file_name']}"}
        del one["height"], one["width"]
    (tmp_path / "export.json").write_text(json.dumps(content), "utf-8-sig")
    part = coco.read(tmp_path / "export.json", tmp_path)
    convert.write(*convert.join(part, part), tmp_path / "shards", 1)
    given = settings(tmp_path / "shards", tmp_path / "run", steps=1, evaluation_steps=1)
    given["optimizer"]["warmup_steps"] = 0
    train(DetectionConfig(**given))
    run = ["--run", str(tmp_path / "run")]
    evaluate.main([*run, "--output", str(tmp_path / "evaluation")])
    found = json.loads((tmp_path / "evaluation" / "detections.json").read_text())
    assert {one["image_id"] for one in found} <= {one["id"] for one in content["images"]}
    assert 0 in {one["category_id"] for one in found} <= {0, 1, 2}
    photo = str(next(tmp_path.glob("*.jpg")))
    predict.main([*run, photo, "--threshold", "0", "--output", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())
    assert {one["category_id"] for one in found} <= {0, 1, 2}


def test_boxes_alone(drawn, tmp_path, capsys, monkeypatch):
    parts = (coco.read(drawn / f"{part}.json", drawn / part, masks=False) for part in PARTS)
    convert.write(*parts, tmp_path / "shards", 2)
    metrics = train(DetectionConfig(**settings(tmp_path / "shards", tmp_path / "run")))
    assert metrics["test"].keys() == {"box"}
    run = ["--run", str(tmp_path / "run")]
    capsys.readouterr()
    evaluate.main([*run, "--output", str(tmp_path / "evaluation")])
    assert "mask" not in capsys.readouterr().out
    written = json.loads((tmp_path / "evaluation" / "evaluation.json").read_text())
    assert written["box"] == metrics["test"]["box"]
    folder = export.run(export.ExportConfig(run=tmp_path / "run", output=tmp_path / "exports"))
    card = (folder / "model_card.md").read_text()
    assert "mask" not in card.lower()
    assert f"| Box AP | {metrics['test']['box']['AP']} (12 test images) |" in card
    # The card's lines run in its folder.
    Image.open(drawn / "val" / "000000.jpg").save(folder / "photo.jpg")
    monkeypatch.chdir(folder)
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
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )


def test_killed_run_goes_on(sharded, tmp_path):
    given = settings(sharded, tmp_path / "run", steps=8, evaluation_steps=8)
    checkpoints = tmp_path / "run" / "checkpoints"
    with start(given, tmp_path) as process:
        while not (checkpoints / "checkpoint").is_file():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    saved = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(checkpoints)))
    step = saved.get_tensor("global_step/.ATTRIBUTES/VARIABLE_VALUE")
    assert 0 < step < 8
    assert not (tmp_path / "run" / "metrics.json").exists()
    with start(given, tmp_path) as process:
        out, errors = process.communicate()
    assert process.returncode == 0, errors[-2000:]
    assert f"resuming after step {step} of 8" in out
    assert f"step {step + 2}/8" in out
    assert f"step {step}/8" not in out
    last = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(checkpoints)))
    names = dict(tf.train.list_variables(tf.train.latest_checkpoint(str(checkpoints))))
    momenta = [name for name in names if "network_variables" in name and "OPTIMIZER" in name]
    assert momenta  # of the backbone's variables, too
    assert last.get_tensor("optimizer/iter/.ATTRIBUTES/VARIABLE_VALUE") == 8


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


TWO_CPUS = """
import sys
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from zoo.train.__main__ import main
main(sys.argv[1:])
"""


def test_two_devices_train_and_go_on(sharded, tmp_path):
    file = tmp_path / "config.yaml"
    command = [sys.executable, "-c", TWO_CPUS, "--config", str(file), "--strategy", "mirrored"]
    given = settings(sharded, tmp_path / "run", precision="mixed_bfloat16")
    file.write_text(yaml.safe_dump(given))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "CPU, 2 replica(s)" in done.stdout
    (tmp_path / "run" / "metrics.json").unlink()  # as if it had been killed at the very end
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "resuming after step 4 of 4" in done.stdout
    assert (tmp_path / "run" / "metrics.json").is_file()
    given["data"]["batch_size"] = 3
    file.write_text(yaml.safe_dump({**given, "output_dir": str(tmp_path / "odd")}))
    done = subprocess.run(command, capture_output=True, text=True)
    assert "data.batch_size: expected a multiple of 2" in done.stderr
    assert not (tmp_path / "odd").exists()


def test_xla_compiles_a_step(sharded):
    config = DetectionConfig(**settings(sharded, "runs/new"))
    experiment = create_experiment(config, {1: "disc", 2: "square", 3: "triangle"})
    task = Task(experiment)
    model = task.build_model()
    optimizer = task.create_optimizer(experiment.trainer.optimizer_config)
    inputs = next(iter(task.build_inputs(experiment.task.train_data)))
    before = [np.array(variable) for variable in model.backbone.trainable_variables]

    @tf.function(jit_compile=True)
    def step(inputs):
        return task.train_step(inputs, model, optimizer)

    for _ in range(2):  # the rate of the first step is 0
        assert np.isfinite(float(step(inputs)[task.loss]))
    after = [np.array(variable) for variable in model.backbone.trainable_variables]
    assert not all(map(np.array_equal, before, after))
