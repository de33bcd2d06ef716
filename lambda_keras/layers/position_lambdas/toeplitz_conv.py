"""Position lambdas as a convolution along all axes but the last, over bands of the last one.

Channels are the positions of a band, so that the convolution is one of many channels, which
hardware for matrix products runs fast; the lambda convolution itself has u of them.
"""

from keras import ops

from lambda_keras.layers.position_lambdas.apply import apply_lambdas
from lambda_keras.layers.position_lambdas.embeddings import toeplitz
from lambda_keras.layers.tiles import in_tiles

# Longest last axis that is one band, and width of the bands of longer ones.
MAX_WIDTH, BAND = 32, 8
# Input channels come in multiples of this, as hardware takes them.
CHANNELS = 8


def toeplitz_conv(queries, values, embeddings):
    """Convolves `(b, *axes, v, m u)` to `(b, *axes, v, n k)`, n queries of a band that sees m."""
    *axes, width = grid = tuple(values.shape[1:-2])
    tiles = (*axes, width if width <= MAX_WIDTH else BAND)
    reach = [size // 2 for size in embeddings.shape[:-2]]

    def compute(queries, values, around):
        batch, *axes, m, v, u = ops.shape(values)
        n, h, k = queries.shape[-3:]
        filled = -(-m // CHANNELS) * CHANNELS
        values = ops.pad(values, [*[(0, 0)] * (len(grid)), (0, filled - m), (0, 0), (0, 0)])
        values = ops.swapaxes(values, -3, -2)
        values = ops.reshape(values, (batch, *axes, v, filled * u))
        kernel = toeplitz(embeddings, len(axes), n, filled, around[-1])  # (*scope, n, m, u, k)
        kernel = ops.moveaxis(kernel, -4, -2)
        kernel = ops.reshape(kernel, (*embeddings.shape[: len(axes)], 1, filled * u, n * k))
        lambdas = ops.conv(values, kernel, padding="same", data_format="channels_last")
        lambdas = ops.reshape(lambdas, (batch, -1, v, n, k))
        queries = ops.reshape(queries, (batch, -1, n, h, k))
        outputs = apply_lambdas("bynhk,byvnk->bynhv", queries, lambdas)
        return ops.reshape(outputs, (batch, -1, h, v))

    return in_tiles(compute, queries, values, grid, tiles, reach)
