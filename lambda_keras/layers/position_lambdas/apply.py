"""Functions that apply lambdas to queries, flatten grids and convolve values."""

from keras import ops

from lambda_keras.layers.contraction import contract
from lambda_keras.layers.position_lambdas.device import inside_xla


def flatten_grid(tensor):
    """`(b, *grid, i, j)` -> `(b, n, i, j)`."""
    batch, *_, i, j = ops.shape(tensor)
    return ops.reshape(tensor, (batch, -1, i, j))


def convolve(values, kernel, strides, convolution=ops.conv):
    """Convolution centered on the positions 0, strides, 2 strides, ...; `strides` is by axis."""
    padding = "same"
    if max(strides) > 1:  # "same" would not center it
        around = [(size // 2, size // 2) for size in kernel.shape[:-2]]
        values, padding = ops.pad(values, [(0, 0), *around, (0, 0)]), "valid"
    return convolution(values, kernel, strides, padding, data_format="channels_last")


def apply_lambdas(equation: str, queries, lambdas):
    """Computes `contract(equation, queries, lambdas)`, such as `"bnhk,nkbv->bnhv"`.

    XLA would run such small matrix products one by one, but fuses a sum of products into one loop.
    Without XLA, libraries batch the matrix products.
    """
    if not inside_xla():
        return contract(equation, queries, lambdas)
    inputs, result = equation.split("->")
    left, right = inputs.split(",")
    axes = right.replace("v", "hv")

    def spread(tensor, letters):
        tensor = ops.transpose(tensor, [letters.index(axis) for axis in axes if axis in letters])
        return tensor[tuple(slice(None) if axis in letters else None for axis in axes)]

    outputs = ops.sum(spread(queries, left) * spread(lambdas, right), axis=axes.index("k"))
    kept = axes.replace("k", "")
    return ops.transpose(outputs, [kept.index(axis) for axis in result])
