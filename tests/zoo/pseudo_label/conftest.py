"""A teacher of small digits, and shards of images to label."""

from pathlib import Path

import pytest
from support.record_files import jpeg, write_tfrecords

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
