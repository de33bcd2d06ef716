"""Settings of a detector that is small enough for tests, and a small data set of drawn shapes."""

import json
from pathlib import Path

import pytest
import yaml

SIZE, TRAIN, VAL = 64, 12, 12

HEADS = """
decoder: {fpn: {num_filters: 8}}
rpn_head: {num_filters: 8}
detection_head: {num_convs: 1, num_filters: 8, fc_dims: 16}
mask_head: {num_convs: 1, num_filters: 8}
roi_generator:
  {pre_nms_top_k: 50, num_proposals: 20, test_pre_nms_top_k: 50, test_num_proposals: 20,
   use_batched_nms: true}
detection_generator: {nms_version: batched}
min_level: 2
max_level: 3
roi_sampler: {num_sampled_rois: 8}
mask_sampler: {num_sampled_masks: 4}
"""


def settings(sharded, folder, **training):
    model = {"name": "lambda_resnet14", "image_size": 64, "overrides": {"stem": "rs"}}
    data = {"dir": str(sharded), "batch_size": 2, "test_batch_size": 4, "shuffle_buffer": 4}
    steps = {"steps": 4, "evaluation_steps": 2, "checkpoint_steps": 2, "steps_per_execution": 2}
    return {
        "output_dir": str(folder),
        "model": {**model, "batch_norm_momentum": 0.9, "heads": yaml.safe_load(HEADS)},
        "data": data,
        "optimizer": {"warmup_steps": 2, "learning_rate": 0.32},
        "training": {**steps, **training},
    }


@pytest.fixture(scope="session")
def drawn(tmp_path_factory) -> Path:
    """Folder of train/, val/, train.json and val.json."""
    from tools import shapes

    folder = tmp_path_factory.mktemp("shapes") / "coco"
    shapes.write(folder, TRAIN, VAL, SIZE)
    return folder


@pytest.fixture(scope="session")
def sharded(drawn) -> Path:
    """Folder of the same images as shards."""
    from zoo.detection import coco, convert

    folder = drawn.with_name("shards")
    parts = (coco.read(drawn / f"{part}.json", drawn / part) for part in ("train", "val"))
    convert.write(*parts, folder, 2)
    return folder


@pytest.fixture
def truth(sharded) -> dict:
    """The annotations of the test images."""
    return json.loads((sharded / "val.json").read_text())
