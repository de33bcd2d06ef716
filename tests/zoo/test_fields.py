"""Types of settings, with the values at their borders."""

import os
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import TypeAdapter, ValidationError

from zoo import fields
from zoo.fields import AnyOutputFolder, AnyPath, BatchSize, Count, LocalPath, OutputFile, named

pytestmark = pytest.mark.one_backend
NAMED = Annotated[OutputFile, named(".png", ".json")]
SOURCE = Annotated[str, fields.one_of("source", ["digits", "tfds"])]


@pytest.fixture(autouse=True)
def here(here):
    """The current folder, with a file, a folder and a pipe."""
    Path("file.png").touch()
    Path("folder").mkdir()
    os.mkfifo("pipe.png")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Count, "1", 1),
        (Count, 2**31 - 1, 2**31 - 1),
        (BatchSize, 2**16, 2**16),
        (LocalPath, "a/b", Path("a/b")),
        (AnyPath, "a/b", Path("a/b")),
        (AnyOutputFolder, "new/folder", Path("new/folder")),
        (NAMED, "file.png", Path("file.png")),
        (NAMED, "new/a.json", Path("new/a.json")),
        (SOURCE, "tfds", "tfds"),
    ],
)
def test_values(kind, value, expected):
    assert TypeAdapter(kind).validate_python(value) == expected
    assert not Path("new").exists()  # the trial of a place to write leaves nothing


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Count, 0, "greater than or equal to 1"),
        (Count, 2**31, "less than or equal to 2147483647"),
        (BatchSize, 0, "greater than or equal to 1"),
        (BatchSize, 2**16 + 1, "less than or equal to 65536"),
        (LocalPath, "gs://a/b", "expected a path of this machine. Received: 'gs://a/b'"),
        (AnyPath, "s3://a/b", "expected a path, or one in a bucket"),
        (AnyOutputFolder, "file.png", "expected a folder to write to"),
        (OutputFile, "folder", "expected a file to write to"),
        (OutputFile, "folder/", "expected a file. Received: 'folder/', a folder"),
        *((OutputFile, name, "a folder") for name in ("a.png/", "a.png//", "a.png/.", "./")),
        (OutputFile, "gs://a/b.png", "expected a path of this machine"),
        (NAMED, "a.txt", "expected a file named .png or .json. Received: 'a.txt'"),
        (NAMED, ".png", "expected a file named .png or .json. Received: '.png'"),
        (NAMED, "pipe.png", "expected a file named .png or .json. Received: 'pipe.png'"),
        (SOURCE, "tdfs", "no such source. Received: 'tdfs' (did you mean 'tfds'?)"),
    ],
)
def test_refused_values(kind, value, message):
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    assert message in str(caught.value)
