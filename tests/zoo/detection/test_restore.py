"""A detector read from a run folder: an untrained one, of which every box scores about the same."""

import json
import os
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from support.detectors import settings
from support.lfs import LFS_POINTER, PULL

from zoo import run_folder
from zoo.detection.config import DetectionConfig
from zoo.detection.detector import Detector
from zoo.detection.experiment import Task, create_experiment, to_coco

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("untrained detector")]

CATEGORIES = {1: "disc", 2: "square", 3: "triangle"}


@pytest.fixture(scope="module")
def untrained(tmp_path_factory) -> Path:
    """The folder of a run without masks, whose weights are random."""
    folder = tmp_path_factory.mktemp("runs") / "untrained"
    config = DetectionConfig(**settings("nowhere", folder))
    keras.utils.set_random_seed(0)  # some of its boxes reach the edge
    model = Task(create_experiment(config, CATEGORIES, masks=False)).build_model()
    save(folder, 4, model=model, global_step=tf.Variable(4), **model.checkpoint_items)
    trained = config.model_dump()
    trained["model"]["weights"], trained["training"]["precision"] = "imagenet", "mixed_bfloat16"
    (folder / "config.yaml").write_text(DetectionConfig(**trained).to_yaml())
    write_metrics(folder, CATEGORIES)
    return folder


def write_metrics(folder, categories, **test):
    metrics = {"test": {"box": {"AP": 0}, **test}, "test_images": 1, "training_images": 1}
    named = {str(number): name for number, name in categories.items()}
    run_folder.write_metrics(folder, metrics | {"categories": named, "most_objects": 160})


def save(folder: Path, number: int, **items) -> None:
    checkpoint, place = tf.train.Checkpoint(**items), str(folder / "checkpoints")
    tf.train.CheckpointManager(checkpoint, place, max_to_keep=1).save(checkpoint_number=number)


def test_boxes_lie_within_the_image(untrained):
    """Resized to 64 x 32 pixels, which are padded to 64 x 64."""
    detector = Detector.from_run(untrained)
    assert not detector.masks
    assert detector.title == "Faster R-CNN on lambda_resnet14"
    # In float32, without weights of its own, whatever it trained with; with room as in its data.
    assert detector.experiment.runtime.mixed_precision_dtype == "float32"
    assert detector.model.backbone.compute_dtype == detector.model.compute_dtype == "float32"
    assert detector.experiment.task.model.detection_generator.max_num_detections == 160
    image = np.random.default_rng(0).integers(0, 256, (40, 80, 3)).astype("uint8")
    outputs = detector.predict(image[None])
    (size, padded, scale, _), boxes = outputs["image_info"][0], outputs["detection_boxes"][0]
    assert size.tolist() == [40, 80]
    assert padded.tolist() == [64, 64]
    assert scale == pytest.approx(0.8)
    assert int(outputs["num_detections"][0]) > 5
    assert boxes.min() >= 0
    assert boxes[:, [0, 2]].max() == pytest.approx(32)  # some reach the edge
    assert boxes[:, [1, 3]].max() <= 64 + 1e-4
    found = to_coco(outputs, [7])
    assert found == detector.detect(image, 7)
    assert all("segmentation" not in one for one in found)
    right, bottom = np.max([np.add(one["bbox"][:2], one["bbox"][2:]) for one in found], axis=0)
    assert right <= 80.01
    assert bottom <= 40.01


def halve(path):
    os.truncate(path, path.stat().st_size // 2)


def point(path):
    path.write_bytes(LFS_POINTER)


def rewrite(categories=CATEGORIES, **test):
    return lambda path: write_metrics(path.parent, categories, **test)


INDEX, DATA = "checkpoints/ckpt-4.index", "checkpoints/ckpt-4.data*"
STATE = "checkpoints/checkpoint"
OTHER, DAMAGED = "other shapes or categ", "damaged or of another detector"
DAMAGE = {
    "other categories": ("metrics.json", rewrite({**CATEGORIES, 4: "star"}), OTHER),
    "with masks": ("metrics.json", rewrite(mask={"AP": 0}), OTHER),
    "no index": (INDEX, halve, DAMAGED),
    "no data": (DATA, halve, DAMAGED),
    "no state": (STATE, Path.unlink, "expected checkpoints"),
    "LFS": (INDEX, point, f"index is {PULL}"),
    "LFS data": (DATA, point, f"-of-00001 is {PULL}"),
    "LFS state": (STATE, point, f"Received: checkpoint is {PULL}"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_other_or_damaged_checkpoints(untrained, tmp_path, kind, caplog):
    folder, (name, damage, message) = tmp_path / "run", DAMAGE[kind]
    shutil.copytree(untrained, folder)
    state = folder / STATE
    state.write_text(state.read_text().replace(str(untrained), str(folder)))
    (path,) = folder.glob(name)
    damage(path)
    with pytest.raises(ValueError, match=rf"^run: .*{message}"):
        Detector.from_run(folder)
    assert not caplog.records  # TensorFlow's warning of each variable
    assert json.loads((untrained / "metrics.json").read_text())["test"] == {"box": {"AP": 0}}


def test_weights_that_are_not_finite(untrained, tmp_path):
    """They find nothing, without a word: neither a checkpoint nor a network may have them."""
    folder = Path(shutil.copytree(untrained, tmp_path / "run"))
    detector = Detector.from_run(untrained)
    variable = detector.model.backbone.network_variables["0"]
    variable.assign(np.full(variable.shape, np.nan))
    with pytest.raises(ValueError, match="expected finite outputs of"):
        detector.detect(np.zeros((40, 80, 3), "uint8"))
    save(folder, 5, model=detector.model, global_step=tf.Variable(5))
    with pytest.raises(ValueError, match=r"^run: .*finite weights in .*nan in backbone/"):
        Detector.from_run(folder)
