"""A teacher of small digits, and shards of images to label."""

import shutil
from pathlib import Path

import pytest
from support.record_files import jpeg, write_tfrecords

from zoo.pseudo_label.__main__ import main

PER_FILE, FILES = 7, 3


@pytest.fixture(scope="session")
def teacher() -> str:
    return str(Path(__file__).parents[2] / "fixtures" / "classifier_run")


@pytest.fixture
def shards(tmp_path) -> Path:
    """Folder with 21 images in three files of records."""
    for file in range(FILES):
        examples = [(jpeg(PER_FILE * file + i), 0) for i in range(PER_FILE)]
        write_tfrecords(tmp_path / "shards" / f"train-{file}", examples)
    return tmp_path / "shards"


@pytest.fixture
def arguments(teacher, shards, tmp_path) -> list[str]:
    """Arguments of `label`: six ranges of four and three images, in batches of two."""
    words = f"--teacher {teacher} --input {shards}/* --output {tmp_path}/labels"
    return [*words.split(), "--range_size", "4", "--batch_size", "2"]


@pytest.fixture(scope="session")
def by_files(teacher, tmp_path_factory) -> Path:
    """Labels of the same images as files, of which one is unreadable, and their report."""
    folder = tmp_path_factory.mktemp("by_files")
    for number in range(PER_FILE * FILES):
        (folder / f"{number:02}.jpg").write_bytes(jpeg(number))
    (folder / "05.jpg").write_bytes(b"no image")
    words = f"label --teacher {teacher} --input {folder}/*.jpg --output {folder}/labels"
    main([*words.split(), "--range_size", "8", "--batch_size", "4"])
    return folder


@pytest.fixture
def labels(by_files, tmp_path) -> Path:
    """A copy of that folder of labels."""
    return shutil.copytree(by_files / "labels", tmp_path / "labels")
