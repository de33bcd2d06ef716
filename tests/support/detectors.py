"""A detector that is small enough for tests, drawn shapes, and annotations in COCO's format."""

import copy
import json
from functools import partial
from pathlib import Path

import pytest
import yaml
from PIL import Image

from support.damage import later
from zoo.detection import coco, convert, shards
from zoo.detection.config import DetectionConfig

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


def read_parts(folder: Path, **options) -> list[coco.Annotations]:
    """Reads the annotations of such a folder."""
    parts = ("train", "val")
    return [coco.read(folder / f"{part}.json", folder / part, **options) for part in parts]


@pytest.fixture(scope="session")
def sharded(drawn) -> Path:
    """Folder of the same images as shards."""
    convert.write(*read_parts(drawn), drawn.with_name("shards"), 2)
    return drawn.with_name("shards")


@pytest.fixture
def truth(sharded) -> dict:
    """The annotations of the test images."""
    return json.loads((sharded / "val.json").read_text())


def check(folder: Path, part: str, **options) -> shards.Ids:
    return shards.check(folder, shards.Dataset.read(folder), part, **options)


def training_records(config: DetectionConfig, first_step: int = 0) -> partial:
    """Function of the training records of a folder of shards."""
    found = check(config.data.dir, shards.TRAIN)
    counts = shards.Counts(train={file: len(ids) for file, ids in found.items()})
    return partial(shards.training_records, config, counts, first_step)


def read(folder: Path, content, *arguments, **options) -> coco.Annotations:
    """Reads lists of annotations, or the bytes of a file, of images of a folder."""
    path = folder / "annotations.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return coco.read(path, folder, *arguments, **options)


def edit(content: dict, place: str, /, **values) -> dict:
    """Sets keys of an entry, such as `images/0`, or of all `images`; `...` takes a key away.

    Functions get the entry, and return the value.
    """
    name, _, number = place.partition("/")
    for one in [content[name][int(number)]] if number else content[name]:
        for key, value in copy.deepcopy(values).items():
            one[key] = value(one) if callable(value) else value
            if value is ...:
                del one[key]
    return content


change = later(edit)


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif
