"""Data sets that are decoded once."""

import shutil
from contextlib import nullcontext

import numpy as np
import pytest
import tensorflow as tf
from support.arrays import stacked
from support.record_files import jpeg, write_tfrecords

from zoo.config import DataConfig
from zoo.data.load import load_data
from zoo.devices import Host

HEIGHT, WIDTH, CLASSES = 10, 12, 4


def noise(number, size=(HEIGHT, WIDTH)):
    pixels = np.random.default_rng(number).integers(0, 256, (*size, 3), "uint8")
    return tf.io.encode_png(pixels).numpy()


def write(folder, source, files) -> DataConfig:
    """Settings of images of as many classes, in shards of one to eleven records or as files."""
    examples = [(content, number % CLASSES) for number, content in enumerate(files)]
    if source == "tfrecord":
        parts = np.split(np.arange(len(files)), [3, 14, 15, 24, 30])
        names = [f"train-{i:05d}-of-00005" for i in range(5)] + ["validation-00000-of-00001"]
        for name, part in zip(names, parts, strict=True):
            write_tfrecords(folder / name, [examples[i] for i in part])
        own = {"classes": CLASSES, "shuffle_buffer": 10}
    else:
        for number, (content, label) in enumerate(examples):
            place = folder / "abcd"[label]
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}.png").write_bytes(content)
        own = {}
    return DataConfig(source=source, dir=str(folder), batch_size=8, **own)


@pytest.mark.parametrize(("source", "shift"), [("image_folder", None), ("tfrecord", 0.125)])
def test_batches_are_equal_to_those_from_files(tmp_path, source, shift):
    """In training from any step, on any host, over epochs; and in tests."""
    config = write(tmp_path / "images", source, [noise(number) for number in range(40)])
    config = config.model_copy(update={"shift": shift, "random_erasing": 0.5})
    kept, read = (
        load_data(config.model_copy(update={"cache_gb": size}), 12, 1) for size in (None, 0)
    )
    for found in (
        lambda data: stacked(data.train.batches(8, CLASSES, 3, Host(1, 2)), 5),
        lambda data: stacked(data.test.batches(8, CLASSES), 5),
    ):
        np.testing.assert_equal(found(kept), found(read))
    assert kept.train.files == read.train.files


@pytest.mark.parametrize("source", ["image_folder", "tfrecord"])
@pytest.mark.parametrize(
    ("change", "settings", "kept"),
    [
        ("", {}, [True, True]),
        ("", {"cache_gb": 9 * HEIGHT * WIDTH * 3 / 1e9}, [False, False]),
        ("", {"cache_gb": 10 * HEIGHT * WIDTH * 3 / 1e9}, [False, True]),
        ("size", {}, [False, False]),
        ("jpeg", {}, [False, True]),
        ("jpeg", {"shift": 0.1}, [True, True]),
        ("jpeg", {"augment": False}, [True, True]),
        ("jpeg", {"resize": "pad"}, [True, True]),
    ],
)
def test_what_is_kept(tmp_path, source, change, settings, kept):
    """Images of training and of tests, when no file is left."""
    files = [*map(noise, range(40))]
    if change == "size":
        files = [noise(number, (HEIGHT + number % 5, WIDTH)) for number in range(40)]
    elif change == "jpeg":
        files = [jpeg(number, (WIDTH, HEIGHT)) for number in range(40)]
    config = write(tmp_path / "images", source, files)
    data = load_data(config.model_copy(update={"test_fraction": 0.25} | settings), 12)
    shutil.rmtree(tmp_path / "images")
    for images, there in zip((data.train, data.test), kept, strict=True):
        with nullcontext() if there else pytest.raises((ValueError, tf.errors.OpError)):
            assert len(images.sample(2)[0]) == 2
