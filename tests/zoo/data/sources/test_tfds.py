"""Data sets of TensorFlow Datasets."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from support.record_files import jpeg, write_imagenet, write_tfds

from zoo.config import DataConfig
from zoo.data.errors import naming_errors
from zoo.data.load import load_data
from zoo.devices import Host
from zoo.files import write_json
from zoo.pseudo_label.inputs import find_ranges


def config(folder, **settings):
    settings = {"name": "imagenet2012", "batch_size": 4, "shuffle_buffer": 8} | settings
    return DataConfig(source="tfds", dir=str(folder), **settings)


def test_splits_of_the_paper(imagenet):
    """Some shards of the training images are held out, to tune on."""
    settings = {"train_split": "train[2shard:]", "test_split": "train[:2shard]"}
    data = load_data(config(imagenet, **settings), 24)
    held_out = data.test.sample(100)[1]
    steps = data.train.steps_per_epoch(4)
    seen = [
        labels.argmax(-1)
        for _, labels in data.train.batches(4, 1000).take(steps).as_numpy_iterator()
    ]
    assert data.test.count == len(held_out) == 14
    assert data.train.count == 46
    assert sorted(np.concatenate(seen))[:2] == [14, 15]
    assert set(held_out) == set(range(14))
    assert len(data.class_names) == 1000
    assert data.class_names[0] == "n01440764"


def test_resumed_run_with_data_at_another_path(imagenet, tmp_path):
    index = tmp_path / "records.json"
    write_json(index, load_data(config(imagenet), 24).index)
    moved = shutil.copytree(imagenet, tmp_path / "moved")
    assert load_data(config(moved), 24, index=index).train.count == 60
    write_imagenet(tmp_path / "other", 59, 3)
    with pytest.raises(ValueError, match=r"began with; choose .* with other sizes of split train"):
        load_data(config(tmp_path / "other"), 24, index=index)
    moved.rename(tmp_path / "data [2]")
    with pytest.raises(ValueError, match=r"a path without \*, \? and \[, .*/data \[2\]'"):
        load_data(config(tmp_path / "data [2]"), 24)


@pytest.mark.parametrize("hosts", [7, 16])
@pytest.mark.parametrize("order", [None, 5])
def test_every_host_reads_its_own_part(hosts, order, imagenet):
    """Of files, and where there are more hosts than files, of their records."""
    source = load_data(config(imagenet), 24).train.source
    order = None if order is None else tf.constant(order, tf.int64)
    parts = [list(source.read(Host(host, hosts), order, 0)) for host in range(hosts)]
    assert {len(part) for part in parts} == {60 // hosts, -(-60 // hosts)}
    numbers = [int(record["label"]) for part in parts for record in part]
    assert sorted(numbers) == list(range(60))


def test_mocked_data(imagenet):
    """As other tests use it: metadata from the disk, random images in place of the files."""
    import tensorflow_datasets as tfds

    with tfds.testing.mock_data(num_examples=60, data_dir=str(imagenet)):
        settings = {"randaugment_magnitude": 10, "randaugment_layers": 1}
        data = load_data(config(imagenet, **settings), 24)
        images, labels = next(iter(data.train.batches(4, 1000, first_step=16)))
        assert images.shape == (4, 24, 24, 3)
        assert labels.shape == (4, 1000)
        assert float(next(iter(data.test.batches(4, 1000)))[2].numpy().sum()) == 4


def test_unknown_name(imagenet):
    with pytest.raises(
        ValueError, match=r"data\.name: .*'imagenet2021' \(did you mean imagenet"
    ) as e:
        load_data(config(imagenet, name="imagenet2021"), 24)
    assert "\n" not in str(e.value)


def test_not_prepared(tmp_path):
    with pytest.raises(
        ValueError, match=r"not prepared in .*val\.tar into .*/downloads/manual, then run"
    ):
        load_data(config(tmp_path), 24)
    command = r'python -c "import tensorflow_datasets .*builder\(\'mnist\', data_dir=.*prepare\(\)"'
    with pytest.raises(ValueError, match=command):
        load_data(config(tmp_path, name="mnist"), 24)


@pytest.mark.parametrize("split", ["validate", "train[:2chards]", "test[:1%]"])
def test_missing_split_says_which_exist(imagenet, split):
    message = r"data\.test_split: .*train \(60 images\), validation \(21 images\)"
    with pytest.raises(ValueError, match=message) as caught:
        load_data(config(imagenet, test_split=split), 24)
    assert repr(split) in str(caught.value)


def test_set_without_labels(tmp_path):
    import tensorflow_datasets as tfds

    label = tfds.features.Scalar(np.float32)
    write_tfds(tmp_path, "ages", {"train": [(jpeg(1), 3)]}, label=label)
    with pytest.raises(ValueError, match=r"label \(ClassLabel\). Received: 'ages' with file_name"):
        load_data(config(tmp_path, name="ages", test_split="train"), 24)


def test_labels_that_are_secret(tmp_path):
    splits = {"train": [(jpeg(i), i) for i in range(5)], "test": [(jpeg(i), -1) for i in range(5)]}
    write_tfds(tmp_path, "secret", splits)
    with pytest.raises(ValueError, match=r"label from 0 to 999\. Received: -1, of test0\.JPEG"):
        load_data(config(tmp_path, name="secret", test_split="test"), 24)


def test_damaged_record_ends_the_run_in_one_line(tmp_path):
    """A flipped bit shows only when it is read."""
    write_tfds(tmp_path, "cut", {"train": [(jpeg(i), i) for i in range(16)]})
    path = sorted((tmp_path / "cut" / "1.0.0").glob("*.tfrecord-*"))[1]
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes(content)
    data = load_data(config(tmp_path, name="cut", test_split="train[:7]"), 24)
    message = f"^data: record 0 of {path} is damaged or cut off$"
    with pytest.raises(ValueError, match=message), naming_errors(data.train.files):
        list(data.train.batches(4, 1000).take(4))


def write(folder, dtype, channels, **options):
    import tensorflow_datasets as tfds

    image = tfds.features.Image(shape=(None, None, channels), dtype=dtype)
    pixels = np.full((9, 9, channels), 40, dtype)
    write_tfds(folder, "own", {"train": [(pixels, i) for i in range(5)]}, image=image, **options)


@pytest.mark.parametrize(("dtype", "channels"), [("uint16", 1), ("uint16", 3), ("float32", 1)])
def test_images_that_are_not_uint8_are_refused(tmp_path, dtype, channels):
    write(tmp_path, np.dtype(dtype).type, channels)
    message = rf"feature image of dtype uint8\. Received: {dtype}; scale it to 8 bits first"
    with pytest.raises(ValueError, match=rf"^data\.name: expected the {message}"):
        load_data(config(tmp_path, name="own", test_split="train"), 24)
    with pytest.raises(ValueError, match=rf"^input: expected the {message}"):
        find_ranges("tfds:own", 9, tmp_path, False)


@pytest.mark.parametrize(("channels", "value"), [(1, 40), (2, 221), (3, 40), (4, 221)])
def test_images_of_every_number_of_channels(tmp_path, channels, value):
    """The second and the fourth one are transparency, 40 of 255 on white."""
    write(tmp_path, np.uint8, channels)
    data = load_data(config(tmp_path, name="own", test_split="train"), 24)
    assert np.unique(data.test.sample(9)[0].round()).tolist() == [value]
    assert len(data.warnings) == (channels == 4)


def test_array_records_are_converted_by_the_command_of_the_message(tmp_path):
    write(tmp_path, np.uint8, 3, file_format="array_record")
    settings = {"name": "own", "test_split": "train"}
    with pytest.raises(ValueError, match=r"^input: .*, in array_record files; convert it: python"):
        find_ranges("tfds:own", 9, tmp_path, False)
    with pytest.raises(ValueError, match=r"^data\.dir: own cannot .* array_record files") as caught:
        load_data(config(tmp_path, **settings), 24)
    command = str(caught.value).partition("convert it: ")[2].replace("python", sys.executable, 1)
    command = command.replace("NEW_FOLDER", str(tmp_path / "new"))
    subprocess.run(command, shell=True, check=True, capture_output=True)
    assert (load_data(config(tmp_path / "new", **settings), 24).test.sample(9)[0] == 40).all()
