"""Shards of tf.train.Example."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from support.record_files import jpeg, write_tfrecords

from zoo.config import DataConfig
from zoo.data.load import load_data
from zoo.data.record_layout import why_compressed
from zoo.devices import ONLY_HOST
from zoo.files import write_json


def config(folder, **settings):
    settings = {"classes": 60, "batch_size": 4, "shuffle_buffer": 8} | settings
    return DataConfig(source="tfrecord", dir=str(folder), **settings)


def test_counts_names_and_labels(records):
    data = load_data(config(records), 24)
    assert (data.train.count, data.test.count) == (60, 21)
    assert (data.train.source.shuffle_buffer, data.test.source.shuffle_buffer) == (8, 8)
    assert data.class_names == tuple(f"class {i}" for i in range(60))
    images, labels = data.test.sample(100)
    assert sorted(labels) == list(range(21))
    # Red is the number of the image, and the label counts from 1 in the file.
    np.testing.assert_allclose(images.mean((1, 2))[:, 0], np.maximum(labels, 2.3), atol=4)
    (name,) = {
        record["name"].numpy()
        for record in data.test.source.testing(1, ONLY_HOST).unbatch().take(1)
    }
    assert name.decode() == f"valid_0.JPEG, number 0 of {records}/validation-00000-of-00002"


def test_data_of_a_resumed_run(records, tmp_path):
    """Its run folder has the counts, so that nothing is read; other names or sizes are refused."""
    folder, index = tmp_path / "records", tmp_path / "records.json"
    shutil.copytree(records, folder)
    data = load_data(config(folder), 24)
    write_json(index, data.index)
    folder = folder.rename(tmp_path / "records [2]")
    for path in folder.iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    again = load_data(config(folder), 24, index=index)
    assert (again.train.count, again.test.count, again.class_names) == (60, 21, data.class_names)
    assert [Path(file).parent for file in again.train.files] == [folder] * len(data.train.files)
    for name in ("train-new", "train-00000-of-00005"):
        changed = shutil.copytree(folder, tmp_path / name)
        write_tfrecords(changed / name, [(jpeg(1), 1)])
        with pytest.raises(ValueError, match=rf"{name}', with other names or sizes of train-\*"):
            load_data(config(changed), 24, index=index)


FIRST = [((0, 1, 2), 0), ((1, 2), 0), ((1, 2, 3), 1), ((2, 3), 1), ((0, 2), 0)]


@pytest.mark.parametrize(("labels", "first"), FIRST)
def test_labels_count_from_one_only_where_the_last_one_says_so(tmp_path, labels, first):
    """Labels 1 and 2 of three classes count from 0, without an image of the first class."""
    for part in ("train", "validation"):
        write_tfrecords(tmp_path / f"{part}-0", [(jpeg(i), i) for i in labels])
    data = load_data(config(tmp_path, classes=3, batch_size=2), 24)
    assert data.class_names == ("0", "1", "2")
    found = [int(record["label"]) for record in data.test.source.testing(1, ONLY_HOST).unbatch()]
    assert found == [label - first for label in labels]


@pytest.fixture
def folder(tmp_path):
    for i in range(3):
        write_tfrecords(tmp_path / f"train-{i}", [(jpeg(i), 1)] * 3)
    write_tfrecords(tmp_path / "validation-0", [(jpeg(1), 1)])
    return tmp_path


@pytest.mark.parametrize("skip", ["refuse", "skip"])
def test_png_of_16_bits_is_unreadable_and_named(folder, skip, capfd):
    deep = tf.io.encode_png(np.full((9, 9, 1), 4095, "uint16")).numpy()
    write_tfrecords(folder / "validation-0", [(deep, 1), (jpeg(1), 2)])
    data = load_data(config(folder, unreadable=skip), 24)
    why = r"data: unreadable image: number 0 of .*validation-0 \(16-bit PNG; scale it to 8 bits"
    if skip == "skip":
        assert data.test.sample(9)[1].tolist() == [2]
        assert re.search(why, capfd.readouterr().err)
    else:
        with pytest.raises(ValueError, match=why):
            data.test.sample(9)


@pytest.mark.parametrize("kind", ["GZIP", "ZLIB"])
def test_compressed_file_is_named_with_the_command(folder, kind):
    """The command of the message gives the file that was compressed."""
    path = folder / "train-1"
    with tf.io.TFRecordWriter(str(path), kind) as writer:
        for record in tf.data.TFRecordDataset(str(folder / "train-0")).as_numpy_iterator():
            writer.write(record)
    with pytest.raises(ValueError, match=rf"train-1 is compressed \({kind}\); ") as caught:
        load_data(config(folder), 24)
    command = str(caught.value).partition("decompress it: ")[2].replace("python", sys.executable)
    command = command.replace("< FILE >", f"< {path} >").replace("NEW_FILE", str(folder / "new"))
    subprocess.run(command, shell=True, check=True)
    assert (folder / "new").read_bytes() == (folder / "train-0").read_bytes()
    assert why_compressed(str(folder / "train-0")) == ""
