"""One small data set of each kind."""

import numpy as np
import pytest
from support.record_files import jpeg, write_imagenet, write_tfrecords

TRAIN, TEST = 60, 21  # images of `records` and `imagenet`


@pytest.fixture(scope="session")
def imagenet(tmp_path_factory):
    """Folder where TFDS finds 60 training and 21 validation images of ImageNet, in 9 + 3 files."""
    folder = tmp_path_factory.mktemp("tfds")
    write_imagenet(folder, TRAIN, TEST)
    return folder


@pytest.fixture(scope="session")
def records(tmp_path_factory):
    """Folder with 60 training images in 5 files, 21 validation images in 2; labels from 1."""
    folder = tmp_path_factory.mktemp("records")
    names = ["", *(f"class {i}" for i in range(60))]
    for part, count, files in (("train", TRAIN, 5), ("validation", TEST, 2)):
        for i, numbers in enumerate(np.array_split(np.arange(count), files)):
            examples = [(jpeg(n), int(n) + 1) for n in numbers]
            write_tfrecords(folder / f"{part}-{i:05}-of-{files:05}", examples, names)
    return folder
