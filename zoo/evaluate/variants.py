"""Variants of ImageNet in TensorFlow Datasets: their splits, and the classes that count."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

# Data set: the only split that has labels.
SPLITS = {
    "imagenet_v2": "test",
    "imagenet_a": "test",
    "imagenet_r": "test",
    "imagenet_sketch": "test",
    "imagenet2012_real": "validation",
    "imagenet2012_corrupted": "validation",
}
REAL = "imagenet2012_real"
CORRUPTED = "imagenet2012_corrupted"


def dataset_of(name: str | None) -> str:
    """Returns the data set in a name of TFDS: `imagenet_v2` in `imagenet_v2/topimages:3.0.0`."""
    return (name or "").split("/")[0].split(":")[0]


def class_subset(name: str | None) -> Sequence[str] | None:
    """Returns the WordNet ids of the classes of a data set that has 1,000 labels but fewer classes.

    TFDS declares all labels of ImageNet for ImageNet-A and ImageNet-R, which have 200 classes. None
    for other data sets.
    """
    classes = _facts().get(dataset_of(name), {}).get("classes")
    return None if classes is None else classes.split()


def has_all_corruptions(name: str | None) -> bool:
    """Returns whether a name means all corruptions and severities, not one of them."""
    return dataset_of(name) == CORRUPTED and "/" not in (name or "")


@cache
def _facts() -> dict[str, Any]:
    path = Path(__file__).with_name("imagenet_variants.yaml")
    return yaml.safe_load(path.read_text(encoding="utf-8"))
