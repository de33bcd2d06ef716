"""The implementation that `"auto"` takes, by kind of device."""

import math
from dataclasses import dataclass, field

import keras

from lambda_keras.layers.position_lambdas.api import capable
from lambda_keras.layers.position_lambdas.device import device_kind, inside_xla
from lambda_keras.layers.position_lambdas.query_first import dense_tiles


@dataclass(frozen=True)
class Choice:
    """An implementation and the cases that it is the choice for.

    Attributes:
        implementation: One of `IMPLEMENTATIONS`; it is passed over where it is not capable.
        least: The smallest numbers that a case may have, by name (see `fastest`).
        most: The largest ones.
        given: Values that it must have.
    """

    implementation: str
    least: dict[str, float] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)
    given: dict[str, object] = field(default_factory=dict)

    def suits(self, case: dict) -> bool:
        return (
            all(case[name] >= number for name, number in self.least.items())
            and all(case[name] <= number for name, number in self.most.items())
            and all(case[name] == value for name, value in self.given.items())
        )


LIBRARY = {"xla": False, "training": False}  # inference by convolutions of a library
TENSORFLOW = {"xla": False, "backend": "tensorflow", "axes": 2, "training": True}
TILES = {"tiles": True}

# The first row that suits a case is taken. docs/measurements.md has what is measured.
CHOICES = {
    # Measured on TensorFlow, with and without XLA.
    "cpu": (
        Choice("conv", given={"unknown_grid": True}),
        # No transform is worth it for a small scope, nor products that are not the smallest.
        Choice(
            "depthwise_conv",
            least={"positions": 101},
            most={"scope": 11, "value_dim": 32},
            given=LIBRARY,
        ),
        Choice("conv", least={"positions": 101}, most={"scope": 11}, given=LIBRARY),
        # Dense embeddings are the least work.
        Choice("query_first", most={"positions": 256}),
        Choice(
            "query_first",
            least={"scope": 12, "value_dim": 64},
            most={"positions": 400},
            given={"axes": 2, "training": False, "backend": "tensorflow"},
        ),
        Choice("query_first", given={"axes": 1, **TILES}),
        Choice("query_first", most={"positions": 1024}, given={"axes": 1, "training": True}),
        # Gradients of large convolutions take longer than dense embeddings.
        Choice("query_first", most={"scope": 11}, given={**TENSORFLOW, **TILES}),
        Choice("query_first", given={**TENSORFLOW, **TILES, "causal": True}),
        Choice("query_first", most={"positions": 1024}, given={**TENSORFLOW, "causal": True}),
        Choice("fourier", least={"axes": 2}),
        Choice("conv"),
        Choice("query_first"),
    ),
    # Compiled by XLA for an H100, not run; the same on other backends by reasoning.
    "gpu": (
        Choice("conv", given={"unknown_grid": True}),
        Choice("query_first", most={"positions": 100}),
        Choice("query_first", given={"axes": 1, **TILES}),
        Choice("dense_matmul", most={"positions": 484}),
        Choice("dense_matmul", least={"scope": 21}, most={"positions": 784}),
        Choice("toeplitz_conv"),
        Choice("dense_matmul"),
    ),
    # Compiled for a TPU v5e, not run.
    "tpu": (
        Choice("conv", given={"unknown_grid": True}),
        Choice("query_first", most={"positions": 256}),
        Choice("query_first", given={"axes": 1, **TILES}),
        Choice("toeplitz_conv"),
        Choice("query_first"),
    ),
}


def fastest(grid, scope, value_dim: int, training: bool, **needs) -> str:
    """The implementation that `"auto"` takes: the first of `CHOICES` that suits and is capable.

    Args:
        grid: Sizes of the grid of queries and context, `None` where unknown.
        scope: Numbers of relative positions, one for each axis, dilation included; `None` for
            embeddings of any pairs.
        value_dim: Value depth v.
        training: Whether a backward pass may follow.
        **needs: `causal` and `intra_depth` of the layer.

    Returns:
        One of `IMPLEMENTATIONS`.
    """
    needs |= {"any_pairs": scope is None, "axes": len(grid), "unknown_grid": None in grid}
    case = {
        **needs,
        "positions": math.inf if None in grid else math.prod(grid),
        "scope": max(scope or [math.inf]),
        "value_dim": value_dim,
        "training": training,
        "tiles": scope is not None and dense_tiles(grid, scope) is not None,
        "xla": inside_xla(),
        "backend": keras.backend.backend(),
    }
    able = capable(**needs)
    return next(
        choice.implementation
        for choice in CHOICES[device_kind()]
        if choice.implementation in able and choice.suits(case)
    )
