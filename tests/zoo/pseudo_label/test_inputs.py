"""Ranges of the images that a pattern names."""

import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from support.lfs import LFS_POINTER
from support.record_files import jpeg, write_imagenet, write_tfds, write_tfrecords

from zoo.pseudo_label.inputs import DamagedError, Range, find_ranges, sizes_and_times

HEAD, TAIL = 12, 4


def find(pattern, range_size=4, folder=None, skip=False) -> list[Range]:
    return find_ranges(str(pattern), range_size, folder, skip)


@pytest.mark.parametrize(
    ("range_size", "expected"),
    [
        (10, [(0, 7)]),
        (7, [(0, 7)]),
        (4, [(0, 4), (4, 3)]),
        (3, [(0, 3), (3, 3), (6, 1)]),
        (0, [(0, -1)]),  # whole files, which are not counted
    ],
)
def test_files_of_records_are_divided(shards, range_size, expected):
    if range_size == 0:
        (shards / "train-1").write_bytes(b"damaged")
    files = [(f"train-{i}", *part) for i in range(3) for part in expected]
    ranges = find(shards / "*", range_size)
    assert [(Path(part.files[0]).name, part.skip, part.take) for part in ranges] == files
    assert len(list(ranges[0].read())) == min(range_size or 7, 7)


def test_ranges_are_all_records_once(shards):
    """With their own names, or by their numbers."""
    write_tfrecords(shards / "train-3", [(jpeg(0), 0)], ["red"])
    pairs = [pair for part in find(shards / "*") for pair in part.read()]
    images, names = zip(*pairs, strict=True)
    assert list(images) == [*map(jpeg, range(21)), jpeg(0)]
    assert (names[5], names[21]) == ("number 5 of train-0", "train_0.JPEG")
    assert len(set(names)) == 22


DAMAGE = {  # of a file of seven records, and how many can be read
    "cut off": (lambda content, second: content[:-5], 6),
    "other contents": (lambda content, second: replaced(content, second + HEAD + 9, b"?"), 1),
    "other length": (lambda content, second: replaced(content, second, b"\xff" * 8), 1),
    "text": (lambda *_: b"these are no records", 0),
    "pixels": (lambda *_: b"\xff\xd8\xff", 0),
}


def replaced(content: bytes, place: int, part: bytes) -> bytes:
    return content[:place] + part + content[place + len(part) :]


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_file_is_named_before_the_work_or_its_rest_is_skipped(shards, kind):
    content, (change, intact) = (shards / "train-1").read_bytes(), DAMAGE[kind]
    second = HEAD + int.from_bytes(content[:8], "little") + TAIL
    (shards / "train-1").write_bytes(change(content, second))
    if kind != "other contents":  # which only reading finds
        with pytest.raises(ValueError, match=rf"train-1 \(after {intact} records\); --damaged sk"):
            find(shards / "*")
    if kind != "pixels":
        part = find(shards / "*", 10, skip=True)[1]
        with pytest.raises(DamagedError, match=rf"train-1, after {intact} records \("):
            list(part.read())
        assert part.take == (7 if kind == "other contents" else intact + 1)


def test_image_files_are_sorted_and_divided(photos, capsys):
    (photos / "notes.txt").write_text("not an image")
    ranges = find(photos / "**/*", 8)
    assert [len(part.files) for part in ranges] == [8, 8, 4]
    files = [file for part in ranges for file in part.files]
    assert files == sorted(str(one) for one in photos.rglob("*.*") if one.suffix != ".txt")
    image, name = next(ranges[0].read())
    assert image == Path(name).read_bytes()
    assert "notes.txt" in capsys.readouterr().err


def test_other_sizes_and_times_are_noticed(photos, shards):
    ranges = find(photos / "*/*", 8)
    of_records = find(shards / "train-0", 3)
    found = [*map(sizes_and_times, (ranges, of_records))]
    assert found == [*map(sizes_and_times, (ranges, of_records))]
    changed = Path(ranges[2].files[-1]), shards / "train-0"
    os.utime(changed[0], ns=(1, 1))
    time = changed[1].stat().st_mtime_ns
    changed[1].write_bytes(changed[1].read_bytes() + b"0")
    os.utime(changed[1], ns=(time, time))
    found += map(sizes_and_times, (ranges, of_records))
    changed[0].unlink()
    assert len({*found, sizes_and_times(ranges)}) == 5


def test_missing_image_file_has_no_contents():
    assert list(Range(("missing.jpg",), 1).read()) == [(b"", "missing.jpg")]


def test_descriptions_are_those_of_older_jobs():
    """Otherwise they could not be resumed."""
    of_records, of_files = Range(("a",), 3, 4, "image"), Range(("a", "b"), 2)
    assert of_records.describe() == {"file": "a", "skip": 4, "take": 3}
    assert of_files.describe() == {"file": "a", "take": 2, "names": "7e18f737311b"}


def test_data_set_of_tfds(tmp_path):
    """Slices are the images themselves, whatever files they are in."""
    write_imagenet(tmp_path, 10, 3)

    def images(split: str) -> list[bytes]:
        ranges = find(f"tfds:imagenet2012{split}", folder=tmp_path)
        assert max(part.take for part in ranges) <= 4
        return [image for part in ranges for image, _ in part.read()]

    every = images("")
    assert sorted(every) == sorted(map(jpeg, range(10)))
    assert images(":train[:50%]") == every[:5]
    assert images(":train[50%:]") == every[5:]
    assert images(":train[2:]") == every[2:]
    assert len(images(":validation")) == 3
    assert sum(part.take for part in find("tfds:imagenet2012", 0, tmp_path)) == 10


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ("nothing/*", "input: expected TFRecord files or image files, for example"),
        ("shards", "which has no images"),
        ("empty/*", "input: expected images. Received: 1 files without records"),
        ("other/*", "records with image/encoded in {tmp_path}/other/a. Received: label"),
        ("text/*", "image/encoded in {tmp_path}/text/a. Received: no tf.train.Example"),
        ("pointer/*", "input: expected a file of records. Received: {tmp_path}/pointer/a (a Git"),
        ("tfds:no_such_data_set", "input: expected a data set of TensorFlow Datasets"),
        ("tfds:imagenet2012", "input: imagenet2012 is not prepared in {tmp_path}"),
    ],
)
@pytest.mark.usefixtures("shards")
def test_input_without_images_is_refused(tmp_path, pattern, part):
    features = {"label": tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))}
    example = tf.train.Example(features=tf.train.Features(feature=features))
    other = example.SerializeToString()
    for name, records in ("empty", []), ("other", [other]), ("text", [b"text"]):
        (tmp_path / name).mkdir()
        with tf.io.TFRecordWriter(str(tmp_path / name / "a")) as file:
            list(map(file.write, records))
    (tmp_path / "pointer").mkdir()
    (tmp_path / "pointer" / "a").write_bytes(LFS_POINTER)
    pattern = pattern if ":" in pattern else f"{tmp_path}/{pattern}"
    with pytest.raises(ValueError, match=re.escape(part.format(tmp_path=tmp_path))):
        find(pattern, folder=tmp_path)


@pytest.mark.parametrize("range_size", [0, 4])
def test_compressed_records_are_refused(shards, range_size):
    for path in shards.iterdir():
        path.write_bytes(gzip.compress(path.read_bytes()))
    message = rf"^input: {shards}/train-0 is compressed \(GZIP\); decompress it: gzip"
    with pytest.raises(ValueError, match=message):
        find(shards / "*", range_size)


def test_data_set_without_images_is_refused(tmp_path):
    write_tfds(tmp_path, "numbers", {"train": [(jpeg(0), 1)]})
    path = next(tmp_path.rglob("features.json"))
    features = json.loads(path.read_text())
    entries = features["featuresDict"]["features"]
    entries["picture"] = entries.pop("image")
    path.write_text(json.dumps(features))
    with pytest.raises(ValueError, match=r"the feature image \(Image\), in TFRecord"):
        find("tfds:numbers", folder=tmp_path)


def test_images_in_a_bucket(bucket, shards):
    for path in shards.iterdir():
        tf.io.gfile.makedirs(f"{bucket}/shards")
        with tf.io.gfile.GFile(f"{bucket}/shards/{path.name}", "wb") as file:
            file.write(path.read_bytes())
    assert len(find(f"{bucket}/shards/*")) == 6


@pytest.mark.parametrize(
    ("dtype", "options", "message"),
    [
        ("uint16", {}, r"expected the feature image of dtype uint8\. Received: uint16"),
        ("uint8", {"file_format": "array_record"}, ".*, in array_record files; convert it: python"),
    ],
)
def test_data_sets_that_cannot_be_read_are_refused(tmp_path, dtype, options, message):
    image = tfds.features.Image(shape=(None, None, 3), dtype=np.dtype(dtype).type)
    examples = [(np.full((9, 9, 3), 40, dtype), number) for number in range(5)]
    write_tfds(tmp_path, "own", {"train": examples}, image=image, **options)
    with pytest.raises(ValueError, match=f"^input: {message}"):
        find("tfds:own", folder=tmp_path)
