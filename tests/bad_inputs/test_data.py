"""Data that training, evaluation and calibration cannot use: one line before the first step."""

import gzip
import io
import itertools
import json
import os
import shutil
import struct
import zlib
from pathlib import Path

import pytest
import tensorflow as tf
from PIL import Image
from support.damage import flip, later
from support.record_files import jpeg, write_tfds, write_tfrecords

from zoo.config import DataConfig
from zoo.data.load import load_data

SOURCES = {"image_folder": {}, "tfds": {"name": "cats"}, "tfrecord": {"classes": 9}}
NAME = r"data.name: expected a data set of TensorFlow Datasets"
SPLIT = "train (9 images), validation (3 images)"
INFO, FEATURES = "cats/1.0.0/dataset_info.json", "cats/1.0.0/features.json"
SHARD = "cats/1.0.0/cats-train.tfrecord-00001"


def picture(suffix: str) -> bytes:
    file = io.BytesIO()
    Image.open(io.BytesIO(jpeg(90))).save(file, suffix)
    return file.getvalue()


PNG, JPEG = picture("png"), picture("jpeg")


def header(width: int, height: int) -> bytes:
    content = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    crc = struct.pack(">I", zlib.crc32(b"IHDR" + content))
    return PNG[:8] + struct.pack(">I", 13) + b"IHDR" + content + crc


@pytest.fixture(scope="session")
def originals(tmp_path_factory) -> Path:
    """A sound data set of each source."""
    folder = tmp_path_factory.mktemp("originals")
    for i in range(5):
        for name, content in (("a.jpg", JPEG), ("b.png", PNG)):
            path = folder / "image_folder" / name[0] / f"{i}{name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    examples = [(jpeg(i), i) for i in range(9)]
    write_tfds(
        folder / "tfds", "cats", {"train": examples, "validation": examples[:3]}, per_shard=3
    )
    for i in range(3):
        write_tfrecords(folder / "tfrecord" / f"train-{i}", examples[3 * i : 3 * i + 3])
    write_tfrecords(folder / "tfrecord" / "validation-0", examples[:3])
    return folder


# Changes of a copy of the data set.


@later
def write(folder: Path, name: str, content: bytes) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def cut(name: str, end: int):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:end])


def compress(name: str):
    return lambda folder: (folder / name).write_bytes(gzip.compress((folder / name).read_bytes()))


def damage(name: str, at: int):
    return lambda folder: flip(folder / name, at)


@later
def remove(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@later
def empty(folder: Path, name: str) -> None:
    remove(name)(folder)
    (folder / name).mkdir()


@later
def instead(folder: Path, name: str, make) -> None:
    (folder / name).unlink(missing_ok=True)
    make(folder / name)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def rename(name: str, new: bytes):
    return lambda folder: os.renames(os.fsencode(folder / name), os.fsencode(folder) + b"/" + new)


def split_in_two(folder: Path) -> None:
    for name, label in itertools.product(("train", "val"), "ab"):
        shutil.copytree(folder / label, folder / name / label)
    remove("a", "b")(folder)


@later
def both(folder: Path, *changes) -> None:
    for step in changes:
        step(folder)


@later
def info(folder: Path, **values) -> None:
    content = json.loads((folder / INFO).read_text())
    content["splits"][0].update(values)
    (folder / INFO).write_text(json.dumps(content))


@later
def shard(folder: Path, name: str, **features) -> None:
    """A shard of one record with other features."""
    values = {key: tf.train.Feature(**value) for key, value in features.items()}
    example = tf.train.Example(features=tf.train.Features(feature=values))
    with tf.io.TFRecordWriter(str(folder / name)) as writer:
        writer.write(example.SerializeToString())


no_change = both()
number = {"int64_list": tf.train.Int64List(value=[1])}
text = {"bytes_list": tf.train.BytesList(value=[b"1"])}
NEGATIVE = [(JPEG, -1)]
image_key, label_key = "image/encoded", "image/class/label"

# Source: (what is wrong, what is done to the folder, other settings, part of the message).
ROWS = {
    "image_folder": [
        ("no_folder", remove("."), {}, "data.dir: expected a folder of images"),
        ("file", no_change, {"dir": "a/0a.jpg"}, "data.dir: expected a folder of images"),
        ("empty_folder", remove("a", "b"), {}, "Received: []"),
        ("one_class", remove("b"), {}, "Received: ['a']"),
        ("empty_class", empty("b"), {}, "no images (.jpg, .jpeg, .png, .webp, "),
        ("other_suffix", both(empty("b"), write("b/a.heic", JPEG)), {}, "b, but "),
        ("class_not_utf8", rename("b", b"caf\xe9"), {}, r"'caf\udce9'"),
        ("class_with_escape", rename("b", b"\x1b[31m"), {}, r"'\x1b[31m'"),
        ("class_is_a_loop", instead("c", loop), {}, "c (Too many levels of symbolic links)"),
        ("one_image_of_a_class", both(empty("b"), write("b/a.png", PNG)), {}, "one of b"),
        ("batch_too_large", no_change, {"batch_size": 9}, "at most 8, the number of training"),
        ("other_classes", both(split_in_two, rename("val/b", b"val/c")), {}, "['b', 'c']"),
        ("broken_in_val", both(split_in_two, cut("val/a/0a.jpg", 9)), {}, "val/a/0a.jpg (Invalid"),
        ("fifo", instead("a/0.jpg", os.mkfifo), {}, "a/0.jpg (not a regular file)"),
        ("file_not_utf8", write("a/caf\udce9.jpg", b""), {}, r"caf\udce9.jpg (not an image of"),
        ("file_with_line_break", write("a/a\n.png", b""), {}, r"/a\n.png (not an image of"),
        ("empty_file", write("a/0a.jpg", b""), {}, "a/0a.jpg (not an image of JPEG, PNG, "),
        ("text", write("a/0a.jpg", b"hello"), {}, "a/0a.jpg (not an image of JPEG, PNG, "),
        ("gif_cut_off", write("a/0a.gif", picture("gif")[:-30]), {}, "a/0a.gif ("),
        ("jpeg_cut_off", cut("a/0a.jpg", -20), {}, "a/0a.jpg (jpeg::Uncompress failed"),
        ("png_cut_off", cut("b/0b.png", -200), {}, "b/0b.png (Invalid PNG"),
        ("png_wrong_header_crc", damage("b/0b.png", 30), {}, "b/0b.png (Invalid PNG"),
        ("png_0_pixels", write("b/0b.png", header(0, 9)), {}, "b/0b.png (Invalid PNG"),
        ("png_16_bits", write("b/0b.png", PNG[:24] + b"\x10" + PNG[25:]), {}, "(16-bit PNG;"),
        ("png_bomb", write("b/0b.png", header(60_000, 60_000)), {}, "60000 x 60000 pixels, more"),
        (
            "jpeg_bomb",
            write("a/0a.jpg", JPEG.replace(struct.pack(">HH", 30, 40), b"\xff\xdc\xff\xdc")),
            {},
            "65500 x 65500 pixels, more",
        ),
    ],
    "tfds": [
        ("no_folder", remove("."), {}, NAME),
        ("unknown", no_change, {"name": "cat"}, "Received: 'cat'"),
        ("no_such_version", no_change, {"name": "cats:9.9.9"}, "Received: 'cats:9.9.9'"),
        ("not_prepared", no_change, {"name": "mnist"}, "data.dir: mnist is not prepared in"),
        ("no_description", remove(INFO), {}, "Could not read dataset info"),
        ("cut_off_description", cut(INFO, 50), {}, NAME),
        ("null_features", write(FEATURES, b"null"), {}, NAME),
        ("lengths_too_large", info(shardLengths=["3", "3", "9"]), {}, "were they copied"),
        ("pattern", rename("cats", b"a [2]/cats"), {"dir": "a [2]"}, "a path without *, ? and ["),
        ("unknown_split", no_change, {"train_split": "valid"}, SPLIT),
        ("unit", no_change, {"train_split": "train[:2chards]"}, "Received: 'train[:2chards]'"),
        ("empty_split", no_change, {"train_split": "train[5:5]"}, "which is empty"),
        ("backwards", no_change, {"train_split": "train[80%:40%]"}, "which is empty"),
        ("too_few", no_change, {"train_split": "train[-1:]"}, "data.batch_size: expected at most"),
        ("missing_shard", remove(SHARD), {}, "tfrecord-00001 (No such file or directory)"),
        ("empty_shard", cut(SHARD, 0), {}, "tfrecord-00001 (empty)"),
        ("cut_off_shard", cut(SHARD, -20), {}, "were they copied as a whole?"),
        ("fifo", instead(SHARD, os.mkfifo), {}, "tfrecord-00001 (not a regular file)"),
        ("folder", instead(SHARD, os.mkdir), {}, "tfrecord-00001 (not a regular file)"),
        ("compressed", compress(SHARD), {}, "tfrecord-00001 is compressed (GZIP); decompress it"),
        ("damaged", damage(SHARD[:-1] + "0", 500), {}, f"{SHARD[:-1]}0 is damaged or cut off"),
    ],
    "tfrecord": [
        ("no_folder", remove("."), {}, "which has no train-*"),
        ("file", no_change, {"dir": "train-0"}, "which has no train-*"),
        ("no_validation", remove("validation-0"), {}, "which has no validation-*"),
        ("empty_shard", cut("train-1", 0), {}, "train-1 (empty)"),
        ("cut_off", cut("train-1", -20), {}, "train-1 is damaged"),
        ("damaged", damage("validation-0", 300), {}, "validation-0 is damaged"),
        ("text", write("train-1", b"a,b,c\n" * 9), {}, "train-1 is damaged"),
        ("compressed", compress("train-1"), {}, "train-1 is compressed (GZIP); decompress it"),
        ("fifo", instead("train-1", os.mkfifo), {}, "train-1 (not a regular file)"),
        ("folder", instead("train-1", os.mkdir), {}, "train-1 (not a regular file)"),
        ("label_negative", lambda to: write_tfrecords(to / "train-1", NEGATIVE), {}, "such as -1"),
        ("fewer_classes", no_change, {"classes": 5}, "data.classes=5 and labels such as 5"),
        ("no_label", shard("train-1", **{image_key: text}), {}, "expected records with"),
        ("no_image", shard("train-1", **{label_key: number}), {}, "expected records with"),
        ("label_is_text", shard("train-1", **{image_key: text, label_key: text}), {}, "train-1"),
        ("batch_too_large", no_change, {"batch_size": 10}, "at most 9, the number of training"),
    ],
}


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("source", "change", "settings", "part"),
    [
        pytest.param(source, *row, id=f"{source}-{name}")
        for source, rows in ROWS.items()
        for name, *row in rows
    ],
)
def test_refused_in_one_line_before_the_first_step(
    source, change, settings, part, originals, tmp_path
):
    folder = tmp_path / "data"
    shutil.copytree(originals / source, folder)
    change(folder)
    settings = SOURCES[source] | {"dir": ".", "batch_size": 2} | settings
    settings["dir"] = str(folder / settings["dir"])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # each has its own part
        load_data(DataConfig(source=source, **settings), 16)
    message = str(caught.value)
    assert part in message
    assert message.isprintable()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("folder", ["", "a\0b", "s3://bucket/x", "hf://datasets/owner/name"])
def test_folders_that_cannot_be(folder):
    with pytest.raises(ValueError, match=r"dir\n  Value error, expected a path"):
        DataConfig.model_validate({"source": "image_folder", "dir": folder})


def test_the_originals_are_sound(originals):
    for source, settings in SOURCES.items():
        folder = str(originals / source)
        load_data(DataConfig(source=source, dir=folder, batch_size=2, **settings), 16)
