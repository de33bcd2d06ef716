"""Position lambdas as a convolution along all axes but the last, over bands of the last one.

The positions of a band become channels, because hardware for matrix products runs convolutions of
many channels fast; the lambda convolution itself has only u.
"""

from keras import ops

from lambda_keras.layers.position_lambdas.apply import apply_lambdas, convolve, flatten_grid
from lambda_keras.layers.position_lambdas.embeddings import toeplitz
from lambda_keras.layers.tiles import part, strided, tile

# Longest last axis that is one band (longer ones too, if a band sees all of it); width of bands.
MAX_WIDTH, BAND = 32, 8
# Hardware processes input channels in multiples of this.
CHANNELS = 8


def toeplitz_conv(queries, values, embeddings, strides: int = 1):
    """Convolves `(b, *axes, v, m u)` to `(b, *axes, v, n k)`, n queries of a band that sees m."""
    batch, *axes, width, v, u = ops.shape(values)
    *scope, reach, _, k = embeddings.shape
    rank = len(axes)
    size = width if width <= max(MAX_WIDTH, BAND + reach - 1) else -(-BAND // strides) * strides
    around, bands = (0, 1) if size == width else (reach // 2, -(-width // size))
    m = -(-(size + 2 * around) // CHANNELS) * CHANNELS
    n, width = strided((size, width), strides)

    values = tile(values, (*axes, size), [0] * rank + [around])  # (b bands, *axes, m, v, u)
    values = ops.pad(values, [*[(0, 0)] * (rank + 1), (0, m - size - 2 * around), (0, 0), (0, 0)])
    values = ops.reshape(ops.swapaxes(values, -3, -2), (-1, *axes, v, m * u))
    kernel = toeplitz(embeddings, rank, n, m, around, strides)
    kernel = ops.moveaxis(kernel, -4, -2)  # (*r, m, u, n, k)
    kernel = ops.reshape(kernel, (*scope, 1, m * u, n * k))
    lambdas = convolve(values, kernel, (*(strides for _ in axes), 1))
    lambdas = ops.reshape(lambdas, (batch, bands, -1, v, n, k))

    queries = ops.pad(queries, [*[(0, 0)] * (rank + 1), (0, bands * n - width), (0, 0), (0, 0)])
    queries = ops.reshape(queries, (batch, -1, bands, n, *queries.shape[-2:]))
    outputs = apply_lambdas("bygnhk,bgyvnk->bygnhv", queries, lambdas)
    outputs = ops.reshape(outputs, (batch, -1, bands * n, *ops.shape(outputs)[-2:]))
    return flatten_grid(part(outputs, 2, 0, width))
