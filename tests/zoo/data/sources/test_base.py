"""Order of images in memory, and what resumed runs compare."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.config import DataConfig
from zoo.data.augment import fold_in, random_shift, random_window, to_uint8
from zoo.data.crops import resize_center, resize_window
from zoo.data.sources.base import DataSource, IndexedSource
from zoo.data.sources.stored import Pixels
from zoo.devices import ONLY_HOST
from zoo.files import write_json

COUNT, BATCH = 22, 4
SOURCE = IndexedSource(np.arange(COUNT), np.arange(COUNT) % 5, np.arange(COUNT).astype(str))


def read(steps, first_step=0, host=ONLY_HOST, seed=3):
    """Indices of the images of some steps."""
    batches = SOURCE.training(BATCH, first_step, host, seed).rebatch(host.size(BATCH))
    found = []
    for record in batches.take(steps).as_numpy_iterator():
        assert (record["label"] == record["image"] % 5).all()
        assert (record["name"].astype(int) == record["image"]).all()
        found.append(record["image"])
    return np.array(found)


@pytest.mark.parametrize("seed", [3, 4])
def test_the_order_of_an_epoch_is_tensorflows(seed):
    """Runs of before go on with the same images."""
    for epoch, images in enumerate(read(15, seed=seed).reshape(3, -1)):
        order = [tf.constant(part, tf.int64) for part in (seed, epoch)]
        expected = [
            int(tf.random.experimental.index_shuffle(tf.constant(i, tf.int64), order, COUNT - 1))
            for i in range(20)
        ]
        assert images.tolist() == expected


@settings(deadline=None, derandomize=True, max_examples=15)
@given(first=st.integers(0, 12), count=st.sampled_from([1, 2, 4]), seed=st.integers(0, 2**31))
def test_any_host_starts_anywhere(first, count, seed):
    whole = read(14, seed=seed).reshape(14, count, -1)
    for host in ONLY_HOST.split(count):
        own = read(14 - first, first, host, seed)
        np.testing.assert_array_equal(own, whole[first:, host.index])


class Source(DataSource):
    def open(self, image_size):
        pytest.fail("it was opened")


@pytest.mark.parametrize("settings", [{"resize": "crop"}, {"resize": "pad"}, {"shift": 0.25}])
def test_windows_and_flips_have_seeds_of_their_own(settings):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), "uint8")
    read, source = partial(Pixels().read, tf.constant(pixels)), Source(DataConfig(**settings))
    for number in range(8):
        seed = tf.constant([3, number], tf.int64)
        window = partial(random_window, seed=seed)
        if "shift" in settings:
            whole = resize_center(read(), Preprocessing(8, 0.875, "bilinear"))
            image = random_shift(to_uint8(whole), seed, 8, 0.25)
        elif settings["resize"] == "crop":
            image = to_uint8(tf.image.resize(read(window=window), (8, 8)))
        else:
            image = to_uint8(resize_window(read(), "pad", window, 8))
        expected = tf.image.stateless_random_flip_left_right(image, fold_in(seed, 1))
        np.testing.assert_array_equal(source.augmented(read, seed, 8), expected)


def test_a_resumed_run_compares_what_it_noted(tmp_path):
    index = tmp_path / "records.json"
    source = Source(DataConfig(source="image_folder", dir="data [2]"), index)
    assert source.check_same({"images": 9}) == {"images": 9}  # nothing noted yet
    write_json(index, {"images": 2000, "names": "ab"})
    assert source.check_same({"images": 2000, "names": "ab"})
    message = r"^data\.dir: expected the data that .*'data \[2\]', with other "
    with pytest.raises(ValueError, match=message + r"images \(9, not 2000\)$"):
        source.check_same({"images": 9, "names": "ab"})
    with pytest.raises(ValueError, match=message + "names$"):
        source.check_same({"images": 2000, "names": "ac"})
    Path(index).write_text("[1")
    with pytest.raises(ValueError, match=r"output_dir: expected an intact records\.json"):
        source.check_same({})
