"""Every data source: all hosts read what one would, from any step on, and resumed runs compare."""

import itertools
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from zoo import config
from zoo.config import DataConfig
from zoo.data.sources import kinds
from zoo.data.sources.base import IndexedSource
from zoo.devices import ONLY_HOST, Host
from zoo.files import write_json

BATCH, SIZE = 4, 16
STREAM = {"batch_size": BATCH, "shuffle_buffer": 8}
# Settings, and the fixture of the folder, of a small data set of each source.
SETS: dict[str, tuple[dict[str, Any], str | None]] = {
    "digits": ({}, None),
    "image_folder": ({"batch_size": BATCH, "test_fraction": 0.3}, "photos"),
    "tfds": ({**STREAM, "name": "imagenet2012"}, "imagenet"),
    "tfrecord": ({**STREAM, "classes": 60}, "records"),
}


def opened(name: str, folder: Path | None, index: Path | None = None):
    settings, _ = SETS[name]
    place = {} if folder is None else {"dir": str(folder)}
    return kinds.SOURCES[name](DataConfig(source=name, **settings, **place), index).open(SIZE)


@pytest.fixture
def data(request, tmp_path):
    """Name of a source, a folder of its images, and what it finds there."""
    name, folder = request.param, None
    if fixture := SETS[name][1]:
        folder = shutil.copytree(request.getfixturevalue(fixture), tmp_path / "data")
    return name, folder, opened(name, folder)


# Quick tests of the streams of files are in tests/zoo/data/test_record_files.py.
IN_MEMORY = [
    pytest.param(name, marks=pytest.mark.slow) if "shuffle_buffer" in settings else name
    for name, (settings, _) in SETS.items()
]


def identities(groups, count: int = -1) -> list[tuple[bytes, int]]:
    """Name with image, and label, of the first records."""
    records = groups.unbatch().take(count).as_numpy_iterator()
    return [(one["name"] + bytes(one["image"]), int(one["label"])) for one in records]


def training(source, steps: int, first_step: int = 0, host: Host = ONLY_HOST):
    return identities(source.training(BATCH, first_step, host, 3), steps * host.size(BATCH))


def test_every_source_is_tested_and_has_settings():
    assert SETS.keys() == kinds.SOURCES.keys() == config.SOURCES.keys()


@pytest.mark.parametrize("data", IN_MEMORY, indirect=True)
def test_hosts_share_the_images_from_any_step_on(data):
    *_, found = data
    epoch = min(found.train.count // BATCH, 15)  # or a part of it
    whole = training(found.train, epoch + 3)
    assert len({*whole[: epoch * BATCH]}) == epoch * BATCH
    assert {label for _, label in whole} <= set(range(len(found.class_names)))
    tf.random.set_seed(99)  # of no effect
    for first in (1, epoch - 1, epoch + 1):
        assert training(found.train, epoch + 3 - first, first) == whole[first * BATCH :]
    parts = [training(found.train, epoch - 1, 1, Host(i, 2)) for i in range(2)]
    half = BATCH // 2
    steps = [part[i : i + half] for i in range(0, len(parts[0]), half) for part in parts]
    joined = list(itertools.chain(*steps))
    assert len({*joined}) == len(joined) == (epoch - 1) * BATCH
    if isinstance(found.train, IndexedSource):  # as one host has them
        assert joined == whole[BATCH : epoch * BATCH]
    tested, *parts = (
        identities(found.test.testing(BATCH, host)) for host in (ONLY_HOST, Host(0, 2), Host(1, 2))
    )
    assert len({*tested}) == len(tested) == found.test.count
    assert sorted(itertools.chain(*parts)) == sorted(tested)
    assert not {image for image, _ in whole} & {image for image, _ in tested}


@pytest.mark.parametrize("data", SETS, indirect=True)
def test_a_resumed_run_has_the_data_that_it_began_with(data, tmp_path):
    """Wherever they are now."""
    name, folder, found = data
    index = tmp_path / "index.json"
    write_json(index, found.index)
    again = opened(name, folder and folder.rename(tmp_path / "moved"), index)
    assert (again.train.count, again.test.count) == (found.train.count, found.test.count)
    assert again.class_names == found.class_names
    if found.index is None:
        return
    index.write_text(re.sub(r"\d+", lambda number: str(int(number[0]) + 1), index.read_text()))
    with pytest.raises(ValueError, match=r"data\.\w+: expected the data that .* with other "):
        opened(name, tmp_path / "moved", index)
