"""Image files: colours, sizes, and what cannot be read."""

import os

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from support.record_files import jpeg, write_tfds, write_tfrecords

from lambda_keras.applications import preprocess_input
from zoo.config import DataConfig
from zoo.data.crops import decode_center
from zoo.data.errors import naming_errors
from zoo.data.load import held_out_files, held_out_preprocessing, load_data

TRUNCATED = 13  # number of the image, of 40, that is cut off


@pytest.mark.parametrize("augment", [True, False])
def test_image_folder_gives_the_right_colours(photos, augment):
    config = DataConfig(source="image_folder", dir=str(photos), batch_size=4, augment=augment)
    data = load_data(config, image_size=24)
    images, labels = data.test.sample(100)
    assert images.shape == (4, 24, 24, 3)
    assert images.min() >= 0
    assert images.max() <= 255
    training_images, training_labels = next(data.train.batches(16, 2).as_numpy_iterator())
    assert training_images.shape == (16, 24, 24, 3)
    pairs = [(preprocess_input(images), labels), (training_images, training_labels.argmax(-1))]
    for images, labels in pairs:
        means = images.mean((1, 2))
        np.testing.assert_array_equal(labels, means[:, 0] > means[:, 2])  # 1 is red
    assert set(data.test.sample(3)[1]) == {0, 1}


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK"])
def test_all_colour_modes_become_rgb(photos, mode):
    suffix = "jpg" if mode == "CMYK" else "png"
    Image.new("RGB", (30, 30), (200, 30, 30)).convert(mode).save(photos / "red" / f"m.{suffix}")
    config = DataConfig(source="image_folder", dir=str(photos), batch_size=16)
    images, _ = next(iter(load_data(config, image_size=16).train.batches(16, 2)))
    assert images.shape == (16, 16, 16, 3)


def test_unreadable_file_stops_before_training(photos):
    (photos / "red" / "0.jpg").write_bytes(b"\xff\xd8 no more")
    config = DataConfig(source="image_folder", dir=str(photos), batch_size=4)
    with pytest.raises(ValueError, match=r"unreadable image files: .*red/0\.jpg"):
        load_data(config, image_size=24)


def test_unreadable_file_is_left_out_if_told_so(photos, capsys):
    (photos / "red" / "0.jpg").write_bytes(b"\xff\xd8 no more")
    config = DataConfig(source="image_folder", dir=str(photos), batch_size=4, unreadable="skip")
    data = load_data(config, image_size=24)
    assert (data.train.count, data.test.count) == (15, 4)
    assert "left out" in capsys.readouterr().err


def test_split_follows_its_seed(photos):
    def held_out(**settings):
        config = DataConfig(source="image_folder", dir=str(photos), batch_size=4, **settings)
        return set(load_data(config, 24).test.source.names)

    assert held_out(split_seed=1) == held_out(split_seed=1) != held_out() == held_out(split_seed=0)


def test_every_random_choice_has_a_seed_of_its_own(photos, monkeypatch):
    seeds = set()

    def spy(module, name):
        original = getattr(module, name)

        def spied(*arguments, **options):
            at = {"stateless_sample_distorted_bounding_box": 2}.get(name, 1)
            seeds.add((name, *np.asarray(arguments[at]).tolist()))
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, spied)

    spy(tf.image, "stateless_sample_distorted_bounding_box")
    spy(tf.image, "stateless_random_flip_left_right")
    spy(tf.random, "stateless_uniform")
    config = DataConfig(
        source="image_folder", dir=str(photos), batch_size=4, randaugment_magnitude=10
    )
    view = load_data(config, 16).train.read_image
    path = tf.constant(str(photos / "red" / "1.png"))
    view({"image": path, "name": path}, tf.constant([0, 5], tf.int64))
    assert len(seeds) > 4  # a window, a flip, and which operations how strongly
    assert len({seed[1:] for seed in seeds}) == len(seeds)


def test_names_that_are_not_utf8_are_read(photos):
    name = os.fsencode(photos / "red") + b"/caf\xe9.png"
    os.rename(photos / "red" / "1.png", name)
    config = DataConfig(source="image_folder", dir=str(photos), batch_size=16)
    data = load_data(config, 16)
    assert name in [*data.train.source.names, *data.test.source.names]
    next(data.train.batches(16, 2).as_numpy_iterator())


@pytest.fixture(params=["tfrecord", pytest.param("tfds", marks=pytest.mark.very_slow)])
def truncated(request, tmp_path):
    """Settings of a set of 40 + 20 images, one of each cut off in the middle."""
    images = [jpeg(i, (100, 80)) for i in range(40)]
    images[TRUNCATED] = images[TRUNCATED][:300]
    examples = list(zip(images, range(40), strict=True))
    if request.param == "tfds":
        write_tfds(tmp_path, "cut", {"train": examples, "validation": examples[:20]})
        settings = {"name": "cut"}
    else:
        write_tfrecords(tmp_path / "train-0", examples, list(map(str, range(40))))
        write_tfrecords(tmp_path / "validation-0", examples[:20], list(map(str, range(40))))
        settings = {"classes": 40}
    return DataConfig(source=request.param, dir=str(tmp_path), batch_size=8, **settings)


def test_unreadable_image_is_named_and_the_run_goes_on(truncated, capfd):
    data = load_data(truncated.model_copy(update={"unreadable": "skip"}), 24)
    expected = load_data(truncated, 24)  # whose batches are the same but for that image
    images, labels = zip(*data.train.batches(8, 40).take(10).as_numpy_iterator(), strict=True)
    labels = np.stack(labels).argmax(-1)
    assert TRUNCATED not in labels
    assert capfd.readouterr().err.count("data: unreadable image: train") >= 2
    (step, other) = next(i for i in enumerate(labels[:5]) if len(set(i[1])) < 8)
    assert len(set(other)) == 7  # another one of the batch stands in
    again, _ = next(data.train.batches(8, 40, step).as_numpy_iterator())
    np.testing.assert_array_equal(again, images[step])
    assert data.train.count == expected.train.count == 40
    tested = list(data.test.batches(8, 40).as_numpy_iterator())
    weights = np.concatenate([batch[2] for batch in tested])
    real = np.concatenate([batch[1] for batch in tested]).argmax(-1)[weights > 0]
    assert sorted([*real, TRUNCATED]) == list(range(20))
    assert "data: unreadable image: val" in capfd.readouterr().err
    assert len(data.test.sample(100)[0]) == 19


def test_unreadable_image_ends_the_run_with_its_name(truncated):
    data = load_data(truncated, 24)
    name = f"data: unreadable image: train.*{TRUNCATED}"
    with pytest.raises(ValueError, match=name) as caught, naming_errors():
        list(data.train.batches(8, 40).take(5))
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="data: unreadable image: val"):
        data.test.sample(100)


def test_nothing_readable(tmp_path, capfd):
    write_tfds(tmp_path, "bad", {"train": [(b"no image", i) for i in range(8)]})
    config = DataConfig(
        source="tfds", dir=str(tmp_path), name="bad", test_split="train", batch_size=8
    )
    data = load_data(config.model_copy(update={"unreadable": "skip"}), 24)
    with pytest.raises(ValueError, match="not one image of a batch"), naming_errors():
        next(iter(data.train.batches(8, 1000)))
    weights = next(iter(data.test.batches(8, 1000)))[2]
    assert float(sum(weights)) == 0
    capfd.readouterr()


def test_held_out_files_are_what_the_test_sees(every_config):
    files, labels = held_out_files(every_config, 16, 9)
    images, expected = load_data(every_config, 16).test.sample(9)
    np.testing.assert_array_equal(labels, expected)
    preprocessing = held_out_preprocessing(every_config, 16)
    got = np.stack([decode_center(tf.constant(file), preprocessing) for file in files])
    np.testing.assert_array_equal(got, images)


def test_held_out_files_can_be_read(truncated):
    skipping = truncated.model_copy(update={"unreadable": "skip"})
    files, labels = held_out_files(skipping, 24, 100)
    assert (len(files), TRUNCATED in labels) == (19, False)
    with pytest.raises(ValueError, match="data: unreadable image: "):
        held_out_files(truncated, 24, 100)


@pytest.mark.parametrize(
    ("resize", "share", "trained"),
    [("crop", 0, 0.2), ("pad", 1 / 16, 1 / 16), ("squash", 1 / 4, 1 / 4)],
)
def test_the_border_of_wide_images(tmp_path, resize, share, trained):
    """The left quarter is white: its share of the pixels in tests, and on average in training."""
    pixels = np.zeros((10, 40, 3), "uint8")
    pixels[:, :10] = 255
    for number in range(20):
        path = tmp_path / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(path)
    settings = {"source": "image_folder", "dir": str(tmp_path), "test_fraction": 0.5}
    data = load_data(DataConfig(**settings, batch_size=5, resize=resize), 16)
    assert data.test.sample(1)[0].mean() / 255 == pytest.approx(share, abs=0.01)
    batches = data.train.examples(5).take(100).batch(100)
    images = next(iter(batches))[0].numpy()
    assert images.shape == (100, 16, 16, 3)
    assert images.mean() / 255 == pytest.approx(trained, abs=0.12)
    assert (images.max((1, 2, 3)) > 200).any()
