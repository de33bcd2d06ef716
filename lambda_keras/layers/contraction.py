"""Sums of products over the axes that two tensors share."""

import math

import keras
from keras import ops


def contract(equation: str, a, b):
    """`ops.einsum` of two tensors; on TensorFlow as one matrix product.

    On CPUs without AVX-512, TensorFlow's einsum rounds every partial sum to bfloat16: of 3136 equal
    terms a fifth is lost, of 784 in other shapes two thirds. Matrix products sum in float32.
    Forward and backward, in float32, they take 0.5 to 1.1 times as long as einsum.

    Axes that the result lacks must be axes of both tensors, as in `"bnhk,bkv->bnhv"`.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.einsum(equation, a, b)
    inputs, result = equation.split("->")
    left, right = inputs.split(",")
    batch = [axis for axis in left if axis in right and axis in result]
    if len(batch) == 1:
        # A second batch axis, of size 1: with the axis that `GradientTape.jacobian` adds, oneDNN
        # reads past the end of four axes where a batch of one example is repeated.
        a, b = (ops.expand_dims(x, axes.index(batch[0]) + 1) for x, axes in ((a, left), (b, right)))
        left, right = (axes.replace(batch[0], batch[0] + "1") for axes in (left, right))
        batch.append("1")
    summed = [axis for axis in left if axis not in result and axis not in batch]
    rows = [axis for axis in result if axis not in right]
    columns = [axis for axis in result if axis not in left]
    sizes = dict(zip(left + right, (*ops.shape(a), *ops.shape(b)), strict=True))

    def matrices(tensor, letters, *groups):
        """Reshapes to `(*batch, rows, columns)`, each of the two groups as one axis."""
        tensor = _in_order(tensor, letters, [*batch, *groups[0], *groups[1]])
        if all(len(group) == 1 for group in groups):
            return tensor
        merged = [math.prod(sizes[axis] for axis in group) for group in groups]
        return ops.reshape(tensor, [*(sizes[axis] for axis in batch), *merged])

    products = ops.matmul(matrices(a, left, rows, summed), matrices(b, right, summed, columns))
    axes = [axis for axis in (*batch, *rows, *columns) if axis != "1"]
    if len(rows) != 1 or len(columns) != 1 or "1" in batch:
        products = ops.reshape(products, [sizes[axis] for axis in axes])
    return _in_order(products, axes, list(result))


def _in_order(tensor, axes, wanted):
    if list(axes) == wanted:
        return tensor
    return ops.transpose(tensor, [list(axes).index(axis) for axis in wanted])
