"""A small data set of drawn shapes, in COCO's format and as shards."""

import json
from pathlib import Path

import pytest

from zoo.detection import coco, convert, shapes

SIZE, TRAIN, VAL = 64, 12, 12


@pytest.fixture(scope="session")
def drawn(tmp_path_factory) -> Path:
    """Folder of train/, val/, train.json and val.json."""
    folder = tmp_path_factory.mktemp("shapes") / "coco"
    shapes.write(folder, TRAIN, VAL, SIZE)
    return folder


@pytest.fixture(scope="session")
def sharded(drawn) -> Path:
    """Folder of the same images as shards."""
    folder = drawn.with_name("shards")
    parts = (coco.read(drawn / f"{part}.json", drawn / part) for part in ("train", "val"))
    convert.write(*parts, folder, 2)
    return folder


@pytest.fixture
def truth(sharded) -> dict:
    """The annotations of the test images."""
    return json.loads((sharded / "val.json").read_text())
