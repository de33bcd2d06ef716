"""Data sets of TensorFlow Datasets."""

import subprocess
import sys

import numpy as np
import pytest
from support.damage import flip
from support.record_files import jpeg, write_tfds

from zoo.config import DataConfig
from zoo.data.errors import naming_errors
from zoo.data.load import load_data
from zoo.data.sources.tfds import Tfds
from zoo.devices import ONLY_HOST


def config(folder, **settings):
    settings = {"name": "imagenet2012", "batch_size": 4, "shuffle_buffer": 8} | settings
    return DataConfig(source="tfds", dir=str(folder), **settings)


def test_splits_of_the_paper(imagenet):
    """Some shards of the training images are held out, to tune on."""
    settings = {"train_split": "train[2shard:]", "test_split": "train[:2shard]"}
    data = load_data(config(imagenet, **settings), 24)
    held_out = data.test.sample(100)[1]
    groups = data.train.source.training(4, 0, ONLY_HOST, 0)
    seen = [int(record["label"]) for record in groups.unbatch().take(44)]
    assert data.test.count == len(held_out) == 14
    assert (data.train.count, len(set(seen))) == (46, 44)
    assert min(seen) >= 14
    assert set(held_out) == set(range(14))
    assert len(data.class_names) == 1000
    assert data.class_names[0] == "n01440764"
    (name,) = {
        record["name"].numpy()
        for record in data.train.source.testing(1, ONLY_HOST).unbatch().take(1)
    }
    assert name == b"train14.JPEG in imagenet2012-train.tfrecord-00002__0"


@pytest.mark.parametrize(
    ("name", "crop"),
    [("imagenet2012", 0.875), ("imagenet2012_real", 0.875), ("imagenet2012_corrupted/x_1", 1.0)],
)
def test_images_of_corruptions_are_cropped_already(name, crop):
    assert Tfds(DataConfig(source="tfds", name=name)).crop == crop


def test_not_prepared(tmp_path):
    with pytest.raises(ValueError, match=r"not prepared in .*val\.tar into .*/manual, then run"):
        load_data(config(tmp_path), 24)
    command = r'python -c "import tensorflow_datasets .*builder\(\'mnist\', data_dir=.*prepare\(\)"'
    with pytest.raises(ValueError, match=command):
        load_data(config(tmp_path, name="mnist"), 24)


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
    features = tmp_path / "secret" / "1.0.0" / "features.json"
    features.write_text(features.read_text().replace('"1000"', '"4"'))
    with pytest.raises(ValueError, match=r"label from 0 to 3\. Received: 4, of train4\.JPEG"):
        load_data(config(tmp_path, name="secret", test_split="train[4:]"), 24)


def test_damaged_record_ends_the_run_in_one_line(tmp_path):
    """A flipped bit shows only when it is read."""
    write_tfds(tmp_path, "cut", {"train": [(jpeg(i), i) for i in range(16)]})
    path = sorted((tmp_path / "cut" / "1.0.0").glob("*.tfrecord-*"))[1]
    flip(path, 500)
    data = load_data(config(tmp_path, name="cut", test_split="train[:7]"), 24)
    message = f"^data: record 0 of {path} is damaged or cut off$"
    with pytest.raises(ValueError, match=message), naming_errors(data.train.files):
        list(data.train.batches(4, 1000).take(4))


def write(folder, dtype, channels, **options):
    import tensorflow_datasets as tfds

    image = tfds.features.Image(shape=(None, None, channels), dtype=dtype)
    pixels = np.full((9, 9, channels), 40, dtype)
    write_tfds(folder, "own", {"train": [(pixels, i) for i in range(5)]}, image=image, **options)


@pytest.mark.parametrize(("dtype", "channels"), [("uint16", 3), ("float32", 1)])
def test_images_that_are_not_uint8_are_refused(tmp_path, dtype, channels):
    write(tmp_path, np.dtype(dtype).type, channels)
    message = rf"feature image of dtype uint8\. Received: {dtype}; scale it to 8 bits first"
    with pytest.raises(ValueError, match=rf"^data\.name: expected the {message}"):
        load_data(config(tmp_path, name="own", test_split="train"), 24)


@pytest.mark.parametrize(("channels", "value"), [(1, 40), (2, 221), (3, 40), (4, 221)])
def test_images_of_every_number_of_channels(tmp_path, channels, value):
    """The second and the fourth one are transparency, 40 of 255 on white."""
    write(tmp_path, np.uint8, channels)
    data = load_data(config(tmp_path, name="own", test_split="train"), 24)
    assert np.unique(data.test.sample(9)[0].round()).tolist() == [value]
    assert len(data.warnings) == (channels == 4)


@pytest.mark.slow
def test_array_records_are_converted_by_the_command_of_the_message(tmp_path):
    write(tmp_path, np.uint8, 3, file_format="array_record")
    settings = {"name": "own", "test_split": "train"}
    with pytest.raises(ValueError, match="dir: own cannot be read from array_record") as caught:
        load_data(config(tmp_path, **settings), 24)
    command = str(caught.value).partition("convert it: ")[2].replace("python", sys.executable, 1)
    command = command.replace("NEW_FOLDER", str(tmp_path / "new"))
    subprocess.run(command, shell=True, check=True, capture_output=True)
    assert (load_data(config(tmp_path / "new", **settings), 24).test.sample(9)[0] == 40).all()
