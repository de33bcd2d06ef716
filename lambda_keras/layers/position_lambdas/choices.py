"""The implementation that `"auto"` takes, by kind of device."""

import math

import keras

from lambda_keras.layers.position_lambdas.api import capable
from lambda_keras.layers.position_lambdas.dense import dense_tiles
from lambda_keras.layers.position_lambdas.device import device_kind, inside_xla


def _up_to(most: float) -> tuple[float, float]:
    return -math.inf, most


def _at_least(least: float) -> tuple[float, float]:
    return least, math.inf


UNKNOWN_GRID = ("conv", {"unknown_grid": True})
LIBRARY = {"xla": False, "training": False, "positions": _at_least(101), "scope": _up_to(11)}
TENSORFLOW = {"xla": False, "training": True, "backend": "tensorflow", "axes": 2}
TILES = {"tiles": True}
SEQUENCE = {"axes": 1}
STRIDED = {"axes": 2, "strides": _at_least(2), "xla": False, "training": True}
SMALL = {"axes": 2, "batch": _up_to(32), "positions": _at_least(101)}
WIDE = {"scope": _at_least(12), "value_dim": _at_least(64), "backend": "tensorflow", "axes": 2}
# Products of queries and embeddings grow with the heads, lambdas with the depth of values.
FOR_LAMBDAS, FOR_QUERIES = {"values_to_heads": _up_to(4.99)}, {"values_to_heads": _at_least(5)}
NARROW = {**FOR_LAMBDAS, "axes": 2, "positions": (101, 256), "strides": 1, "xla": False}

# Implementations, and the cases that they are for: values, or ranges of numbers, by the names in
# `fastest`. The first row that suits a case, and whose implementation is capable, counts.
CHOICES = {
    # Measured on TensorFlow, with and without XLA: see docs/evidence/measurements.md.
    "cpu": [
        UNKNOWN_GRID,
        # Small scopes in inference, where convolutions come from a library.
        ("depthwise_conv", {**LIBRARY, "value_dim": _up_to(32)}),
        ("conv", LIBRARY),
        ("toeplitz_conv", {**NARROW, **TENSORFLOW, "scope": _up_to(11)}),
        ("dense_matmul", {**NARROW, "backend": "tensorflow"}),
        # Dense embeddings are the least work on small grids, and for wide values on larger ones.
        ("query_first", {"positions": _up_to(256)}),
        ("query_first", {**WIDE, "training": False, "positions": _up_to(400)}),
        ("query_first", {**WIDE, **STRIDED, "positions": _up_to(400)}),
        ("query_first", {**STRIDED, **FOR_QUERIES, **TILES, "scope": _up_to(11)}),
        ("query_first", {**SEQUENCE, **TILES}),
        ("query_first", {**SEQUENCE, "training": True, "positions": _up_to(1024)}),
        # Gradients of large convolutions take longer than dense embeddings.
        ("depthwise_conv", {**TENSORFLOW, **FOR_LAMBDAS, "scope": _up_to(4)}),
        ("query_first", {**TENSORFLOW, **FOR_QUERIES, **TILES, "scope": _up_to(11)}),
        ("toeplitz_conv", {**TENSORFLOW, **FOR_LAMBDAS, "causal": True}),
        ("query_first", {**TENSORFLOW, **TILES, "causal": True}),
        ("query_first", {**TENSORFLOW, "causal": True, "positions": _up_to(1024)}),
        ("fourier", {"axes": _at_least(2)}),
        ("conv", {}),
        ("query_first", {}),
    ],
    # Measured on OpenVINO, in float32 and int8: quantizers leave convolutions of one channel out.
    "runtime": [
        UNKNOWN_GRID,
        ("depthwise_conv", {**LIBRARY, "value_dim": _up_to(32)}),
        ("query_first", {"positions": _up_to(256)}),
        ("conv", LIBRARY),
        ("query_first", {**WIDE, "training": False, "positions": _up_to(400)}),
        ("conv", {}),
        ("query_first", {}),
    ],
    # Compiled by XLA for an H100, not run. Rows without XLA are reasoned: matrix products,
    # and convolutions of many channels, run on tensor cores; single channels do not.
    "gpu": [
        UNKNOWN_GRID,
        ("query_first", {"positions": _up_to(100)}),
        ("query_first", {**SEQUENCE, **TILES}),
        ("dense_matmul", {**SEQUENCE, "positions": _up_to(4096)}),
        ("conv", SEQUENCE),
        # In training on a small batch, it is less work than dense embeddings and their gradient.
        ("toeplitz_conv", {"positions": _at_least(196), "batch": _up_to(32), "training": True}),
        ("dense_matmul", {"positions": _up_to(484)}),
        ("fourier", {"xla": False, "axes": 3}),  # in place of a 3-d convolution
        ("toeplitz_conv", {}),
        ("dense_matmul", {}),
        ("query_first", {}),  # pairs of each example's own
    ],
    # Compiled by XLA for a TPU v5e, not run: see docs/evidence/compiled.md.
    "tpu": [
        UNKNOWN_GRID,
        # Values and spectra of a small batch stay on the chip.
        ("fourier", {**SMALL, "positions": _at_least(485)}),
        ("fourier", {**SMALL, "training": True}),
        ("toeplitz_conv", SMALL),
        ("query_first", {"positions": _up_to(256)}),
        ("query_first", {**SEQUENCE, **TILES}),
        ("query_first", {**SEQUENCE, "positions": _up_to(4096)}),
        ("conv", SEQUENCE),
        ("dense_matmul", {"positions": _up_to(484), "scope": _at_least(12), "training": True}),
        ("einsum", {"positions": _up_to(484), "scope": _at_least(12)}),
        ("toeplitz_conv", {}),
        ("query_first", {}),
    ],
}


def fastest(
    grid,
    scope,
    value_dim: int,
    training: bool,
    batch=None,
    strides=1,
    num_heads=4,
    backend: str | None = None,
    **needs,
) -> str:
    """The implementation that `"auto"` takes: the first row of `CHOICES` that suits.

    Args:
        grid: Sizes of the grid of queries and context, `None` where unknown.
        scope: Numbers of relative positions, one for each axis, dilation included; `None` for
            embeddings of any pairs.
        value_dim: Value depth v.
        training: Whether a backward pass may follow.
        batch: Number of examples; `None` where unknown, which counts as large.
        strides: Strides of the queries along every axis.
        num_heads: Number of queries per position that share a lambda.
        backend: Backend of Keras; `None` for the current one.
        **needs: `causal` and `intra_depth` of the layer, and `own_pairs`, if there are masks or
            relations of each example's own.

    Returns:
        One of `IMPLEMENTATIONS`.
    """
    needs |= {"any_pairs": scope is None, "axes": len(grid), "unknown_grid": None in grid}
    case = {
        **needs,
        "positions": math.inf if None in grid else math.prod(grid),
        "batch": batch or math.inf,
        "scope": max(scope or [math.inf]),
        "value_dim": value_dim,
        "values_to_heads": value_dim / num_heads,
        "training": training,
        "strides": strides,
        "tiles": scope is not None and dense_tiles(grid, scope, strides) is not None,
        "xla": inside_xla(),
        "backend": backend or keras.backend.backend(),
    }
    able = capable(**needs)
    return next(
        implementation
        for implementation, wanted in CHOICES[device_kind()]
        if implementation in able
        and all(_suits(case[name], value) for name, value in wanted.items())
    )


def _suits(value, wanted) -> bool:
    return wanted[0] <= value <= wanted[1] if isinstance(wanted, tuple) else value == wanted
