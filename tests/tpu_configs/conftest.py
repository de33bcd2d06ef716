"""The data sets that the recipes name, small and made up."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image
from support.pseudo_labels import write_selection

IMAGENET = "imagenet2012"
SHARDS = {"train": 1024, "validation": 64}  # of one image each; the real ones have more


@pytest.fixture
def imagenet(tmp_path):
    """Folder of ImageNet's metadata; its images are noise of many sizes."""
    folder = tmp_path / "tensorflow_datasets"
    builder = tfds.builder(IMAGENET, data_dir=folder)
    splits = [
        tfds.core.SplitInfo(name=name, shard_lengths=[1] * shards, num_bytes=0)
        for name, shards in SHARDS.items()
    ]
    builder.info.set_splits(tfds.core.splits.SplitDict(splits))
    Path(builder.data_dir).mkdir(parents=True)
    builder.info.write_to_directory(builder.data_dir)
    noise, features = np.random.default_rng(0), builder.info.features
    for split in SHARDS:
        for i, path in enumerate(builder.info.splits[split].filepaths):
            image = noise.integers(0, 256, (40 + i % 50, 60, 3), "uint8")
            example = {"image": image, "label": i % 1000, "file_name": f"{i}.JPEG"}
            with tf.io.TFRecordWriter(str(path)) as writer:
                writer.write(features.serialize_example(features.encode_example(example)))
    return folder


@pytest.fixture
def pseudo_labels(tmp_path) -> Path:
    """Folder of selected images, which are noise, with hard labels of ImageNet's classes."""
    images = np.random.default_rng(1).integers(0, 256, (32, 40, 40, 3), "uint8")
    names = tfds.builder(IMAGENET, data_dir=tmp_path).info.features["label"].names
    write_selection(tmp_path / "selected", images, np.eye(len(names))[:32], names)
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
