"""Causal lambda networks that predict images pixel by pixel, in raster order."""

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from lambda_keras.layers import LambdaCell, LambdaLayer

KEY_DIM, HEADS, DROPOUT = 16, 4, 0.1


class PixelNetwork(keras.Model):
    """Predicts every pixel of gray images from those before it, in raster order.

    A residual network of causal lambda layers (Figure 6) that see the whole image so far, each
    followed by a multilayer perceptron. The pixel at a position is its target, so the inputs are
    the pixels one position before; there is a start token at the first one.

    Args:
        size: Int, height and width of the images.
        levels: Int, number of gray levels.
        depth: Int, number of channels.
        blocks: Int, number of lambda layers.

    Call arguments:
        pixels: Int tensor `(batch, size, size)`, gray levels from 0.

    Returns:
        Logits `(batch, size, size, levels)`.
    """

    def __init__(self, size: int, levels: int, depth: int, blocks: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.size, self.levels = size, levels
        self.tokens = layers.Embedding(levels + 1, depth)  # the last one starts an image
        self.places = layers.Embedding(size * size, depth)
        self.norms = [layers.LayerNormalization() for _ in range(2 * blocks + 1)]
        self.lambdas: list[Any] = [
            LambdaLayer(
                depth,
                num_heads=HEADS,
                key_dim=KEY_DIM,
                scope=None,
                causal=True,
                embeddings_initializer=keras.initializers.RandomNormal(stddev=0.1),
            )
            for _ in range(blocks)
        ]
        self.hidden = [layers.Dense(4 * depth, activation="gelu") for _ in range(blocks)]
        self.projections = [layers.Dense(depth) for _ in range(blocks)]
        self.dropout = layers.Dropout(DROPOUT)
        self.classifier = layers.Dense(levels)

    def call(self, pixels, training=None):
        shape = (-1, self.size, self.size)
        before = ops.reshape(pixels, (-1, self.size * self.size))[:, :-1]
        tokens = ops.pad(before, [(0, 0), (1, 0)], constant_values=self.levels)
        places = ops.reshape(ops.arange(self.size * self.size), shape)

        def mix(number, x):
            return self.lambdas[number](x, training=training)

        return self._logits(ops.reshape(tokens, shape), places, mix, training)

    def cells(self) -> list[LambdaCell]:
        """Creates a cell of each lambda layer."""
        return [LambdaCell(layer, grid=(self.size, self.size)) for layer in self.lambdas]

    def step(self, cells, token, place, states):
        """Logits `(batch, levels)` at a place, from the pixel before it, and the next states."""
        new: list[Any] = []

        def mix(number, x):
            outputs, state = cells[number](x, states[number])
            new.append(state)
            return outputs

        return self._logits(token, place, mix, training=False), new

    def _logits(self, tokens, places, mix, training):
        """Applies all layers; `mix` is the only one that takes more than one position."""
        x = self.tokens(tokens) + self.places(places)
        for number, (hidden, projection) in enumerate(
            zip(self.hidden, self.projections, strict=True)
        ):
            mixed = mix(number, self.norms[2 * number](x))
            x = x + self.dropout(mixed, training=training)
            changed = projection(hidden(self.norms[2 * number + 1](x)))
            x = x + self.dropout(changed, training=training)
        return self.classifier(self.norms[-1](x))


def train(network: PixelNetwork, pixels: np.ndarray, steps: int, batch: int, rate: float) -> None:
    """Trains a network on images `(count, size, size)` for a number of steps."""
    warmup = steps // 20
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps - warmup, warmup_target=rate, warmup_steps=warmup
    )
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=0.05, global_clipnorm=1.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(optimizer, loss, jit_compile=False)
    images = tf.data.Dataset.from_tensor_slices((pixels, pixels))
    images = images.shuffle(len(pixels)).repeat().batch(batch, drop_remainder=True)
    network.fit(images, steps_per_epoch=steps, shuffle=False)


def bits_per_pixel(network: PixelNetwork, pixels: np.ndarray) -> float:
    """Mean negative log2-likelihood of images under a network."""
    logits = network.predict(pixels, verbose=0)
    log_probabilities = ops.convert_to_numpy(ops.log_softmax(logits))
    chosen = np.take_along_axis(log_probabilities, pixels[..., None], axis=-1)
    return float(-chosen.mean() / np.log(2))


def histogram_bits(train: np.ndarray, test: np.ndarray, levels: int) -> float:
    """Bits per pixel of a histogram at every position, each count one higher than seen."""
    counts = (train[..., None] == np.arange(levels)).sum(axis=0) + 1.0
    probabilities = np.broadcast_to(counts / (len(train) + levels), (*test.shape, levels))
    chosen = np.take_along_axis(probabilities, test[..., None], axis=-1)
    return float(-np.log2(chosen).mean())


def sampler(network: PixelNetwork, count: int) -> Callable[[int], np.ndarray]:
    """Creates a function that draws images `(count, size, size)` for a seed, pixel by pixel."""
    cells = network.cells()
    step = tf.function(partial(network.step, cells), autograph=False)

    def draw(seed: int) -> np.ndarray:
        random = np.random.default_rng(seed)
        states = [cell.get_initial_state(count) for cell in cells]
        token, pixels = np.full(count, network.levels, "int32"), []
        for place in range(network.size**2):
            logits, states = step(tf.constant(token), tf.fill([count], place), states)
            # The index of the largest sum of logit and Gumbel noise is a draw from their softmax.
            noise = random.gumbel(size=logits.shape)
            token = (logits.numpy() + noise).argmax(-1).astype("int32")
            pixels.append(token)
        return np.stack(pixels, axis=1).reshape(count, network.size, network.size)

    return draw
