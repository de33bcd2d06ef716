"""A run of a detector in a bucket, killed."""

import signal
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import yaml
from support.buckets import serving
from support.detectors import settings
from support.starter import Starter, kill_at, names

from zoo.detection.detector import SECONDS


@pytest.fixture
def server():
    with serving() as server:
        yield server
        assert not server.refused


@pytest.fixture
def serial(server, tmp_path):
    """Starts detectors that draw random numbers of images in their order."""
    starter = Starter(server, tmp_path, TF_DETERMINISTIC_OPS="1")
    yield starter
    starter.close()


def variables(server, run: str, step: int, folder: Path) -> dict[str, np.ndarray]:
    """All variables of a detector and its optimizer, without the time of its training."""
    path = folder / f"ckpt-{step}"
    for name in names(server, run):
        if name.startswith(f"checkpoints/{path.name}."):
            (folder / Path(name).name).write_bytes(server.objects[f"bucket/{run}/{name}"].data)
    reader = tf.train.load_checkpoint(str(path))
    found = reader.get_variable_to_shape_map()
    return {
        name: reader.get_tensor(name)
        for name in found
        if SECONDS not in name and "OBJECT_GRAPH" not in name
    }


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_detector_gives_the_same_weights(server, serial, sharded, tmp_path):
    """A detector draws other flips after it has resumed: so does the run that it must equal."""
    server.fill(sharded, "bucket/coco")
    content = {"task": "detection"} | settings("gs://bucket/coco", "gs://bucket/detector")
    (tmp_path / "detector.yaml").write_text(yaml.safe_dump(content))
    command = f"train --config {tmp_path}/detector.yaml"
    at_2 = {}
    server.fail(
        "slow",
        "upload bucket/detector/checkpoints/ckpt-4_temp/.*data",
        then=lambda: at_2.update(server.objects),
    )
    code, output = serial.run(command)
    assert code == 0, output
    for key, found in at_2.items():
        if key.startswith("bucket/detector/") and "_temp" not in key:
            server.write(key.replace("detector", "resumed"), found.data)
    kill_at(server, serial, "upload bucket/killed_detector/checkpoints/ckpt-4_temp")
    code, output = serial.run(command, "gs://bucket/killed_detector")
    assert code == -signal.SIGKILL, output
    for run in ("resumed", "killed_detector"):
        code, output = serial.run(command, f"gs://bucket/{run}")
        assert code == 0, output
        assert "resuming after step 2 of 4" in output
    for step, other in ((2, "detector"), (4, "resumed")):
        expected = variables(server, other, step, tmp_path)
        received = variables(server, "killed_detector", step, tmp_path)
        assert received.keys() == expected.keys()
        assert len(received) > 100
        for name, value in received.items():
            np.testing.assert_array_equal(value, expected[name], name)
    assert "bucket/killed_detector/metrics.json" in server.objects
