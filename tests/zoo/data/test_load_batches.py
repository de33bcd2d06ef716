"""Batches of every source: what the model gets, in which order, on which host."""

import numpy as np
import pytest
import tensorflow as tf

from lambda_keras.applications import preprocess_input
from zoo.data.load import load_data
from zoo.devices import Host

SIZE, BATCH = 24, 8


@pytest.fixture
def data(every_config):
    return load_data(every_config, SIZE, seed=3)


def batches(data, count, first_step=0, host=Host()):  # noqa: B008
    """Arrays of the first batches: images `(count, batch, ...)`, and labels alike."""
    stream = data.train.batches(BATCH, len(data.class_names), first_step, host)
    images, labels = zip(*stream.take(count).as_numpy_iterator(), strict=True)
    assert all(label.sum(-1).all() for label in labels)  # one of them is hot
    return np.stack(images), np.stack(labels).argmax(-1)


def test_training_batches(data):
    stream = data.train.batches(BATCH, 100)
    images, labels = next(iter(stream))
    assert images.shape == stream.element_spec[0].shape == (BATCH, SIZE, SIZE, 3)
    assert images.dtype == tf.float32
    assert labels.shape == (BATCH, 100)
    np.testing.assert_array_equal(np.sum(labels, -1), np.ones(BATCH))
    assert stream.options().experimental_distribute.auto_shard_policy.name == "OFF"


def check_entering(config, first_steps):
    data = load_data(config, SIZE, seed=3)
    last = min(data.train.steps_per_epoch(BATCH), 8) + 2
    whole, labels = batches(data, last)
    tf.random.set_seed(99)  # nor does it matter what was drawn before
    for first_step in first_steps:
        data = load_data(config, SIZE, seed=3)
        rest, rest_labels = batches(data, last - first_step, first_step)
        np.testing.assert_array_equal(rest, whole[first_step:])
        np.testing.assert_array_equal(rest_labels, labels[first_step:])


def test_stream_can_be_entered_at_any_step(every_config):
    """A run that goes on sees what it would have seen, in this epoch and in the next one."""
    steps = load_data(every_config, SIZE).train.steps_per_epoch(BATCH)
    check_entering(every_config, {1, min(steps, 8) + 1})


@pytest.mark.parametrize("every_config", ["digits"], indirect=True)
def test_randaugment_changes_nothing_of_that(every_config):
    augment = {
        "randaugment_magnitude": 15.0,
        "randaugment_layers": 1,
    }
    check_entering(every_config.model_copy(update=augment), {3})


def test_order_and_augmentation_follow_the_seed(every_config, data):
    images, labels = batches(data, 1)
    others = batches(load_data(every_config, SIZE, seed=4), 1)
    assert not np.array_equal(images, others[0])
    assert not np.array_equal(labels, others[1])


def test_epochs_differ_in_order_and_augmentation(data):
    steps = data.train.steps_per_epoch(BATCH)
    (first, labels), (second, other_labels) = batches(data, 2), batches(data, 2, steps)
    assert not np.array_equal(labels, other_labels)
    rows = {image.tobytes() for image in first.reshape(2 * BATCH, -1)}
    # Digits may be shifted as little twice.
    assert len(rows & {image.tobytes() for image in second.reshape(2 * BATCH, -1)}) <= 2


@pytest.mark.parametrize("hosts", [2, 4])
def test_parts_of_hosts_make_up_the_batch_of_one(data, hosts):
    steps = min(data.train.steps_per_epoch(BATCH), 8) + 1  # with one of the next epoch
    whole, labels = batches(data, steps)
    parts = [batches(data, steps, 0, Host(i, hosts)) for i in range(hosts)]
    assert all(images.shape == (steps, BATCH // hosts, SIZE, SIZE, 3) for images, _ in parts)
    np.testing.assert_array_equal(np.concatenate([part[0] for part in parts], 1), whole)
    np.testing.assert_array_equal(np.concatenate([part[1] for part in parts], 1), labels)
    tail, _ = batches(data, 2, steps - 2, Host(1, hosts))
    np.testing.assert_array_equal(tail, parts[1][0][-2:])


def test_test_batches_are_full_and_the_same_number_on_every_host(data):
    images, labels = data.test.sample(10**6)
    assert len(images) == data.test.count
    assert images.min() >= 0
    assert images.max() <= 255
    for hosts in (1, 2):
        real_labels, real_images = [], []
        for host in range(hosts):
            part = data.test.batches(BATCH, 100, Host(host, hosts))
            arrays = list(part.as_numpy_iterator())
            assert len(arrays) == data.test.steps(BATCH)
            for got, one_hot, weights in arrays:
                assert got.shape == (BATCH // hosts, SIZE, SIZE, 3)
                assert weights.shape == (BATCH // hosts,)
                assert weights.dtype == "float32"
                assert set(weights) <= {0, 1}
                assert not got[len(got) - int((weights == 0).sum()) :].any()
                real_images.extend(got[weights == 1])
                real_labels.extend(one_hot[weights == 1].argmax(-1))
        assert len(real_labels) == data.test.count
        np.testing.assert_array_equal(np.bincount(real_labels), np.bincount(labels))
        if hosts == 1:
            np.testing.assert_allclose(real_images, preprocess_input(images), atol=1e-5)


def test_sample_of_training_images(data):
    images, labels = data.train.sample(5)
    assert images.shape == (5, SIZE, SIZE, 3)
    assert 0 <= images.min() < images.max() <= 255
    assert labels.shape == (5,)
    again, _ = data.train.sample(3)
    np.testing.assert_array_equal(again, images[:3])


def test_hosts_that_do_not_divide_the_batch(data):
    for images in (data.train, data.test):
        with pytest.raises(ValueError, match="a multiple of 3, the number of hosts"):
            images.batches(8, 100, host=Host(0, 3))


def test_batch_larger_than_the_data(every_config):
    with pytest.raises(ValueError, match=r"data\.batch_size: expected at most \d+, .*2000"):
        load_data(every_config.model_copy(update={"batch_size": 2000}), SIZE)
