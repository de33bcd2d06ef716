"""Networks that predict pixels: causal, alike step by step, and draws of their probabilities."""

import numpy as np
import pytest
from keras import ops

from zoo.generate.network import PixelNetwork, bits_per_pixel, histogram_bits, sampler, train


@pytest.fixture
def network():
    return PixelNetwork(size=4, levels=3, depth=8, blocks=2)


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 3, (6, 4, 4)).astype("int32")


def test_logits_see_the_pixels_before_alone(network, pixels):
    expected = ops.convert_to_numpy(network(pixels)).reshape(6, 16, 3)
    for position in (0, 5, 15):
        changed = pixels.reshape(6, 16).copy()
        changed[:, position:] = (changed[:, position:] + 1) % 3
        received = ops.convert_to_numpy(network(changed.reshape(6, 4, 4))).reshape(6, 16, 3)
        np.testing.assert_array_equal(received[:, : position + 1], expected[:, : position + 1])
        assert position == 15 or np.abs(received - expected)[:, position + 1].max() > 0


def test_step_by_step_equals_the_whole_network(network, pixels):
    train(network, pixels, steps=3, batch=2, rate=1e-2)
    expected = ops.convert_to_numpy(ops.softmax(network(pixels))).reshape(6, 16, 3)
    cells = network.cells()
    states = [cell.get_initial_state(6) for cell in cells]
    token = np.full(6, 3, "int32")
    for place in range(16):
        logits, states = network.step(cells, token, np.full(6, place, "int32"), states)
        received = ops.convert_to_numpy(ops.softmax(logits))
        np.testing.assert_allclose(received, expected[:, place], rtol=0, atol=1e-6)
        token = pixels.reshape(6, 16)[:, place]


def test_draws_have_the_probabilities_of_the_network(network):
    network.classifier.build((None, 8))
    network.classifier.set_weights([np.zeros((8, 3)), np.log([0.7, 0.2, 0.1])])
    draw = sampler(network, 500)
    images = draw(1)
    assert images.shape == (500, 4, 4)
    fractions = [(images == level).mean() for level in range(3)]
    np.testing.assert_allclose(fractions, [0.7, 0.2, 0.1], atol=0.02)
    np.testing.assert_array_equal(images, draw(1))
    assert (images != draw(2)).any()
    expected = -np.log2(np.array([0.7, 0.2, 0.1]))[images].mean()
    assert bits_per_pixel(network, images) == pytest.approx(expected, rel=1e-5)


def test_histogram_by_hand():
    train = np.array([[[0, 1]], [[0, 0]]])
    test = np.array([[[0, 1]], [[1, 1]]])
    expected = -np.log2([3 / 4, 2 / 4, 1 / 4, 2 / 4]).mean()
    assert histogram_bits(train, test, levels=2) == pytest.approx(expected)


def test_training_lowers_the_loss(network):
    pixels = np.tile(np.arange(16).reshape(1, 4, 4) % 3, (8, 1, 1)).astype("int32")
    before = bits_per_pixel(network, pixels)
    train(network, pixels, steps=30, batch=4, rate=1e-2)
    assert bits_per_pixel(network, pixels) < 0.5 * before
