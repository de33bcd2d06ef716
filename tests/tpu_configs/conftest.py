"""The data sets that the recipes name, small and made up."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image
from support.pseudo_labels import write_selection
from support.record_files import jpeg, write_tfds

IMAGENET = "imagenet2012"
SHARDS = {"train": 1024, "validation": 64}  # of one image each; the real ones have more


@pytest.fixture
def label(tmp_path):
    """The feature of ImageNet's classes."""
    return tfds.builder(IMAGENET, data_dir=tmp_path).info.features["label"]


@pytest.fixture
def imagenet(tmp_path, label) -> Path:
    """Folder of ImageNet, of noise."""
    folder, image = tmp_path / "tensorflow_datasets", jpeg(0)
    splits = {name: [(image, i % 1000) for i in range(count)] for name, count in SHARDS.items()}
    write_tfds(folder, IMAGENET, splits, label=label, version="5.1.0", per_shard=1)
    return folder


@pytest.fixture
def pseudo_labels(tmp_path, label) -> Path:
    """Folder of selected images, which are noise, with hard labels of ImageNet's classes."""
    images = np.random.default_rng(1).integers(0, 256, (32, 40, 40, 3), "uint8")
    write_selection(tmp_path / "selected", images, np.eye(1000)[:32], label.names)
    return tmp_path / "selected"


@pytest.fixture
def photos(tmp_path) -> Path:
    """Folder with the classes blue and red, ten pictures each."""
    for name, color in (("red", (200, 30, 30)), ("blue", (30, 30, 200))):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for i in range(10):
            picture = np.full((40 + i, 40, 3), color, "uint8")
            Image.fromarray(picture).save(folder / f"{i}.jpg")
    return tmp_path / "photos"
