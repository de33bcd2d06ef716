"""Checks of a detector's training before the first step; test_loop.py trains, and takes minutes."""

import errno
import json

import pytest
import tensorflow as tf
from PIL import Image
from support.detectors import settings

from zoo.detection import coco, convert
from zoo.detection.config import DetectionConfig
from zoo.detection.train import DetectionRun, in_one_line
from zoo.devices import Devices, Host, find_devices


@pytest.mark.parametrize("name", ["batch_size", "test_batch_size"])
def test_devices_divide_batches(name):
    config = DetectionConfig(data={"batch_size": 4, "test_batch_size": 4, name: 3})
    with pytest.raises(ValueError, match=rf"data\.{name}: expected a multiple of 2"):
        DetectionRun(config, Devices(2, Host(), "CPU"), resumed=False).load()
    with pytest.raises(ValueError, match="expected the devices of one machine"):
        DetectionRun(config, Devices(3, Host(0, 3), "CPU"), resumed=False).load()


def test_batch_has_at_most_all_images(sharded):
    config = DetectionConfig(data={"dir": str(sharded), "batch_size": 13})
    with pytest.raises(ValueError, match=r"data\.batch_size: expected at most 12, the number of"):
        DetectionRun(config, Devices(1, Host(), "CPU"), resumed=False).load()


def test_images_are_large_enough_at_the_smallest_scale(tmp_path):
    """70 x 1 pixels are 64 x 0.9 when resized to 64, and nothing at a tenth."""
    objects = [{"image_id": 1, "category_id": 1, "bbox": [1, 0, 9, 1]}]
    content = {"images": [{"id": 1, "file_name": "1.png"}], "annotations": objects}
    content |= {"categories": [{"id": 1, "name": "thread"}]}
    Image.new("RGB", (70, 1)).save(tmp_path / "1.png")
    (tmp_path / "thin.json").write_text(json.dumps(content))
    thin = coco.read(tmp_path / "thin.json", tmp_path)
    convert.write(thin, thin, tmp_path / "shards", 1)

    def load(scale):
        given = settings(tmp_path / "shards", tmp_path / "run")
        given["data"] |= {"batch_size": 1, "test_batch_size": 1, "scale_min": scale}
        DetectionRun(DetectionConfig(**given), Devices(1, Host(), "CPU"), resumed=False).load()

    load(1)
    with pytest.raises(ValueError, match=r"less than 12\.8 times as long as wide.* 70 x 1 pixels"):
        load(0.1)


FULL, OOM = "No space left on device", tf.errors.ResourceExhaustedError(None, None, "OOM")
DAMAGED = tf.errors.DataLossError(None, None, "corrupted record at 7\n\t [[{{node x}}]]")
NO_ROOM = tf.errors.ResourceExhaustedError(None, None, f"ckpt-20; {FULL}")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (NO_ROOM, OSError, r"No space left on device: '.*run'"),
        (OSError(errno.ENOSPC, FULL), OSError, r"device: '.*run'"),
        (DAMAGED, ValueError, r"^data: corrupted record at 7$"),
        (RuntimeError("The loss value is NaN"), ValueError, "a lower optimizer.learning_rate"),
        (RuntimeError("anything else"), RuntimeError, "^anything else$"),
        (OOM, tf.errors.OpError, "OOM"),
    ],
)
def test_errors_of_training(tmp_path, error, kind, message):
    with pytest.raises(kind, match=message), in_one_line(tmp_path / "run"):
        raise error


@pytest.mark.slow
def test_run_is_built_with_the_model_that_its_trainer_trains(sharded, tmp_path, monkeypatch):
    config = DetectionConfig(**settings(sharded, tmp_path / "run", seed=5))
    monkeypatch.setattr(tf.train, "latest_checkpoint", lambda _: "checkpoints/ckpt-3")
    run = DetectionRun(config, find_devices("one_device"), resumed=False)
    run.load()
    with run.devices.scope():
        (line,) = run.build()
    assert run.trainer.model is run.model
    given, counts, first_step = run.task.training_records.args
    assert run.index["train"] == counts.train
    assert sum(counts.train.values()) == run.images[0]
    assert (given.training.seed, first_step) == (5, 3)  # images follow those of the checkpoint
    assert f"{run.classes} classes" in line
    assert not (tmp_path / "run").exists()
