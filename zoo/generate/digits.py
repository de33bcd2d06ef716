"""Generation of scikit-learn's handwritten digits."""

import time
from pathlib import Path

import keras
import numpy as np

from zoo.data.sources.digits import load_gray_digits
from zoo.generate.network import PixelNetwork, bits_per_pixel, histogram_bits, sampler, train
from zoo.plots.generated import plot_generated

LEVELS = 17  # gray levels of a digit


def generate(
    output: Path,
    steps: int,
    seed: int,
    count: int,
    depth: int,
    blocks: int,
    batch_size: int,
    learning_rate: float,
) -> None:
    """Trains a network on digits, prints its bits per pixel, and draws digits that it generates."""
    (training, _), (test, _) = load_gray_digits()
    keras.utils.set_random_seed(seed)
    network = PixelNetwork(training.shape[1], LEVELS, depth, blocks)
    start = time.perf_counter()
    train(network, training, steps, batch_size, learning_rate)
    seconds = time.perf_counter() - start
    bits, baseline = bits_per_pixel(network, test), histogram_bits(training, test, LEVELS)
    print(f"{network.count_params():,} weights, {steps} steps in {seconds:.0f} s")
    print(f"bits per pixel of {len(test)} held-out digits: {bits:.3f}")
    print(f"bits per pixel of a histogram at each pixel: {baseline:.3f}")
    draw = sampler(network, count)
    draw(seed)  # compiles
    start = time.perf_counter()
    images = draw(seed)
    print(f"{count / (time.perf_counter() - start):.1f} digits/s, {count} at a time")
    title = f"{bits:.2f} bits per pixel (histogram: {baseline:.2f})"
    real = np.random.default_rng(seed).permutation(test)[:count]
    plot_generated(images / (LEVELS - 1), real / (LEVELS - 1), title, output)
    print(f"wrote {output}")
