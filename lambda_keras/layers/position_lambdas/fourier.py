"""Position lambdas by the convolution theorem, with Fourier transforms as matrix products.

Position lambdas correlate the values with the embeddings, so the spectrum of the lambdas is a
product of two spectra. A transform along one axis of a feature map is a product with a constant
matrix. At these sizes it is less work than any direct form, and hardware is fastest at such
products, gradients included. The intra-depth costs next to nothing.

A spectrum is a tensor `(2, frequencies, channels)`, real and imaginary parts. Spectra of real
signals are symmetric, so half of the frequencies of the last axis are enough.
"""

import math

import numpy as np
from keras import ops

from lambda_keras.layers.position_lambdas.apply import apply_lambdas
from lambda_keras.layers.position_lambdas.device import inside_xla
from lambda_keras.layers.tiles import equal_tiles, in_tiles

# Longest axis that is not tiled, and longest side of the tiles of longer axes.
MAX_SIZE, MAX_TILE = 128, 80


def fourier(queries, values, embeddings, strides: int = 1):
    """Computes position outputs from spectra; `Implementation` documents the arguments.

    The grid must be known. Matrices grow with the square of an axis, so grids with a long axis are
    computed in tiles.
    """
    grid, reach = tuple(values.shape[1:-2]), [size // 2 for size in embeddings.shape[:-2]]
    tiles = [
        n if n <= max(MAX_SIZE, MAX_TILE + 2 * p) else equal_tiles(n, MAX_TILE, strides)
        for n, p in zip(grid, reach, strict=True)
    ]

    def compute(queries, values, around):
        queried = [range(p, p + n, strides) for p, n in zip(around, tiles, strict=True)]
        return _correlated(queries, values, embeddings, queried)

    return in_tiles(compute, queries, values, grid, tiles, reach, strides)


def _correlated(queries, values, embeddings, queried):
    """Computes the position outputs `(b, n, h, v)` of the queries on a grid.

    `queried` holds, for each axis, the positions of the queries among the values. They start at
    half a scope, or at 0 if nothing surrounds the grid.
    """
    batch, *sizes, v, u = ops.shape(values)
    *scope, _, k = embeddings.shape
    reach = [size // 2 for size in scope]
    # With periods this long, values that wrap around do not reach the queries, so the theorem's
    # circular correlation equals the correlation of the lambda layer.
    periods = [n + p - i[0] for n, p, i in zip(sizes, reach, queried, strict=True)]
    dtype = values.dtype
    if ops.dtype(values) == "float16":  # spectra exceed its range
        values, embeddings = ops.cast(values, "float32"), ops.cast(embeddings, "float32")

    signal = ops.reshape(ops.moveaxis(values, (-1, 0), (-3, -2)), (*sizes, -1))
    signal = _spectrum(signal, [range(n) for n in sizes], periods)
    signal = ops.reshape(signal, (2, signal.shape[1], u, -1))
    kernel = ops.reshape(embeddings, (*embeddings.shape[:-2], u * k))
    kernel = _spectrum(kernel, [range(-p, p + 1) for p in reach], periods)
    kernel = ops.reshape(kernel, (2, -1, u, k))

    lambdas = _times_conjugate(signal, kernel)
    lambdas = _inverse(ops.reshape(lambdas, (2, lambdas.shape[1], -1)), queried, periods)
    axes = "nkbv" if inside_xla() else "nbvk"
    length = {"n": math.prod(map(len, queried)), "b": batch, "k": k, "v": v}
    lambdas = ops.reshape(ops.cast(lambdas, dtype), [length[axis] for axis in axes])
    queries = ops.reshape(queries, (batch, length["n"], *queries.shape[-2:]))
    return apply_lambdas(f"nbhk,{axes}->bnhv", ops.swapaxes(queries, 0, 1), lambdas)


def _times_conjugate(signal, kernel):
    """Signal `(2, f, u, c)` times conjugate kernel `(2, f, u, k)`, summed over u: `(2, f, c, k)`.

    Inside XLA the result is `(2, f, k, c)`.
    """
    # As real products over (part, u).
    signal = ops.concatenate(ops.unstack(signal), axis=1)
    kernel_real, kernel_imaginary = ops.unstack(kernel)
    real = ops.concatenate([kernel_real, kernel_imaginary], axis=1)
    imaginary = ops.concatenate([-kernel_imaginary, kernel_real], axis=1)
    kernel = ops.stack([real, imaginary])
    # XLA runs many small products one by one, fastest with long rows.
    if inside_xla():
        return ops.matmul(ops.swapaxes(kernel, -1, -2), signal)
    return ops.matmul(ops.swapaxes(signal, -1, -2), kernel)


def _spectrum(signal, positions, periods):
    """Spectrum of a real signal `(*grid, channels)` at the given positions along each axis."""
    *leading, _ = shape = [len(axis) for axis in positions]
    for axis in reversed(range(len(shape))):
        # `(*axes to do, positions and parts, frequencies done and channels)`
        last = axis == len(leading)
        matrix = _forward_matrix(periods[axis], positions[axis], last)
        signal = ops.reshape(signal, (math.prod(shape[:axis]), matrix.shape[1], -1))
        signal = _transform(matrix, signal)
    frequencies = math.prod(periods[:-1]) * (periods[-1] // 2 + 1)
    return ops.reshape(signal, (2, frequencies, -1))


def _inverse(spectrum, positions, periods):
    """Real signal `(n, channels)` at the given positions along each axis, from its spectrum."""
    shape = [len(axis) for axis in positions]
    for axis, period in enumerate(periods):
        # `(*axes done, parts and frequencies, frequencies to do and channels)`
        matrix = _inverse_matrix(period, positions[axis], axis == len(shape) - 1)
        spectrum = ops.reshape(spectrum, (math.prod(shape[:axis]), matrix.shape[1], -1))
        spectrum = _transform(matrix, spectrum)
    return spectrum


def _transform(matrix, signal):
    return ops.matmul(ops.cast(matrix, signal.dtype), signal)


def _forward_matrix(period, positions, real):
    """Fourier matrix: rows (part, frequency); columns (position, part), or positions if real."""
    angles = 2 * np.pi / period * np.outer(np.arange(period), positions)
    cos, sin = np.cos(angles), np.sin(angles)
    if real:
        half = period // 2 + 1
        return np.concatenate([cos[:half], -sin[:half]])
    matrix = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)])
    return matrix.reshape(2 * period, -1)


def _inverse_matrix(period, positions, real):
    """Inverse matrix: rows (position, part), or positions if real; columns (part, frequency)."""
    matrix = _forward_matrix(period, positions, real).T / period
    if real:
        # Frequencies that also stand for their mirror image count twice.
        weight = np.where(np.arange(period // 2 + 1) % (period / 2) == 0, 1, 2)
        matrix *= np.concatenate([weight, weight])
    return matrix
