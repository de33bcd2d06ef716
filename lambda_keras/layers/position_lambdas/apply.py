"""Lambdas applied to queries, and grids flattened for it."""

from keras import ops

from lambda_keras.layers.contraction import contract
from lambda_keras.layers.position_lambdas.device import inside_xla


def flatten_grid(tensor):
    """`(b, *grid, i, j)` -> `(b, n, i, j)`."""
    batch, *_, i, j = ops.shape(tensor)
    return ops.reshape(tensor, (batch, -1, i, j))


def convolve(values, kernel, strides, convolution=ops.conv):
    """A convolution centered on the positions 0, strides, 2 strides, ...; `strides` by axis."""
    padding = "same"
    if max(strides) > 1:  # which "same" would not center
        around = [(size // 2, size // 2) for size in kernel.shape[:-2]]
        values, padding = ops.pad(values, [(0, 0), *around, (0, 0)]), "valid"
    return convolution(values, kernel, strides, padding, data_format="channels_last")


def apply_lambdas(equation: str, queries, lambdas):
    """Computes `contract(equation, queries, lambdas)`, such as `"bnhk,nkbv->bnhv"`.

    XLA fuses a sum of products into one loop, and runs so small matrix products one by one;
    libraries of matrix products have them batched.
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
