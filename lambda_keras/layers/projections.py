"""Bias-free 1x1 projections, which lambda layers and attention layers begin with."""

import itertools

from keras import initializers, ops


def fan_in(scale: float = 1.0):
    """Initializer `N(0, (scale / fan_in)^1/2)` (E.1)."""
    return initializers.VarianceScaling(
        scale=scale, mode="fan_in", distribution="untruncated_normal"
    )


def project(inputs, kernels):
    """`(b, *grid, d)` -> `(b, n, units)` for each kernel `(d, units)`, by a single product."""
    batch, *_, depth = ops.shape(inputs)
    kernel = ops.concatenate([ops.convert_to_tensor(kernel) for kernel in kernels], axis=1)
    projected = ops.matmul(ops.reshape(inputs, (-1, depth)), kernel)
    projected = ops.reshape(projected, (batch, -1, kernel.shape[1]))
    ends = list(itertools.accumulate(kernel.shape[1] for kernel in kernels))
    return ops.split(projected, ends[:-1], axis=-1) if len(kernels) > 1 else [projected]
