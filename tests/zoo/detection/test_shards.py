"""Order of the training images of detectors."""

import itertools
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
from official.vision.data import tfrecord_lib
from support.detectors import check, read_parts, settings, training_records
from support.lfs import LFS_POINTER, PULL

from zoo.detection import convert, shards
from zoo.detection.config import DetectionConfig
from zoo.detection.experiment import Task, create_experiment


def order(folder, seed=3, first_step=0, batch_size=5):
    given = settings(folder, "runs/new")
    given["data"] |= {"batch_size": batch_size, "shuffle_buffer": 4}
    given["training"] |= {"seed": seed}
    return training_records(DetectionConfig(**given), first_step)


def ids(records, count):
    key = {"image/source_id": tf.io.FixedLenFeature([], tf.string)}
    return [
        int(tf.io.parse_single_example(record, key)["image/source_id"].numpy())
        for record in itertools.islice(records, count)
    ]


def test_every_epoch_has_every_image_at_most_once_in_another_order(sharded):
    first, second = np.reshape(ids(order(sharded)(), 2 * 10), (2, 10)).tolist()
    assert len({*first}) == len({*second}) == 10  # two full batches of 12 images
    assert first != second
    # A resumed run reads what it would have read.
    assert ids(order(sharded, first_step=1)(), 15) == [*first, *second][5:]
    assert ids(order(sharded, seed=4)(), 10) != first


def test_shards_of_a_resumed_run_at_another_path(sharded, tmp_path):
    files = [*check(sharded, shards.TRAIN)]
    counts = shards.Counts(train=dict.fromkeys(files, 6), sizes=tuple(map(os.path.getsize, files)))
    moved = shutil.copytree(sharded, tmp_path / "moved [2]")
    here = counts.here(moved)
    assert [*here.train] == [str(moved / os.path.basename(file)) for file in files]
    assert counts.here(sharded) == counts
    dataset = shards.Dataset.read(sharded)
    for images in (11, 13):
        other = dataset.train.model_copy(update={"images": images})
        with pytest.raises(ValueError, match=f"expected the {images} train images of .*: 12 in"):
            shards.check(sharded, dataset.model_copy(update={"train": other}), shards.TRAIN)
    os.truncate(next(iter(here.train)), 9)
    with pytest.raises(ValueError, match=r"moved \[2\]', with other names or sizes of training sh"):
        counts.here(moved)


@pytest.mark.slow
def test_input_pipeline_has_the_order(sharded):
    """Without augmentation, the batches are the images of the records, one after the other."""
    given = settings(sharded, "runs/new")
    given["data"] |= {"scale_min": 1.0, "scale_max": 1.0, "batch_size": 2}
    experiment = create_experiment(DetectionConfig(**given), {1: "a", 2: "b", 3: "c"})
    experiment.task.train_data.parser.aug_rand_hflip = False
    in_order = order(sharded, batch_size=2, first_step=1)
    batches = Task(experiment, records=in_order).build_inputs(experiment.task.train_data).take(3)
    images = [image for batch, _ in batches for image in batch.numpy()]
    key = {"image/encoded": tf.io.FixedLenFeature([], tf.string)}
    for image, record in zip(images, in_order(), strict=False):
        encoded = tf.io.parse_single_example(record, key)["image/encoded"]
        pixels = tf.io.decode_image(encoded, 3).numpy() / 255
        expected = (pixels - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
        np.testing.assert_allclose(image, expected, atol=0.05)


def test_ids_are_those_of_each_shard(drawn, tmp_path):
    """Of shards that differ in size: 12 images in five."""
    convert.write(*read_parts(drawn), tmp_path / "new", 5)
    found = check(tmp_path / "new", shards.TRAIN)
    assert sorted(map(len, found.values())) == [2, 2, 2, 3, 3]
    for file, numbers in found.items():
        assert ids(tf.data.TFRecordDataset(file), 12) == numbers


@pytest.mark.parametrize(("kind", "why"), [("", r"\(16-bit PNG"), ("GZIP", "is compressed ")])
def test_shards_that_are_compressed_or_of_16_bits(tmp_path, kind, why):
    with tf.io.TFRecordWriter(str(tmp_path / "train-0.tfrecord"), kind) as writer:
        for dtype in ("uint8", "uint16", "uint8"):
            png = tf.io.encode_png(np.ones((9, 9, 3), dtype)).numpy()
            features = tfrecord_lib.image_info_to_feature_dict(9, 9, "1.png", 1, png, "png")
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    part = {"images": 3, "objects": 1}
    dataset = shards.Dataset(categories={1: "a"}, train=part, val=part, masks=False)
    with pytest.raises(ValueError, match=rf"expected intact shards.*-0\.tfrecord {why}"):
        shards.check(tmp_path, dataset, shards.TRAIN)
    (tmp_path / "train-0.tfrecord").write_bytes(LFS_POINTER)
    with pytest.raises(ValueError, match=rf"expected intact shards.*-0\.tfrecord \({PULL}\)"):
        shards.check(tmp_path, dataset, shards.TRAIN)
