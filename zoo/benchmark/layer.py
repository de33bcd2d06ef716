"""Times the lambda layer: `python -m zoo.benchmark layer`."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import Field

from zoo.benchmark.cases import Bench, LayerCase, quotient
from zoo.benchmark.report import columns
from zoo.benchmark.settings import (
    BASELINE,
    FORWARD,
    FORWARD_BACKWARD,
    BackendSettings,
    BenchmarkSettings,
    Dtype,
    EachOnce,
)
from zoo.cli.settings import checked_by
from zoo.errors import unknown

HEADS, KEY_DIM = 4, 16  # the paper's, and the defaults of LambdaLayer
MODES = (FORWARD, FORWARD_BACKWARD)
CONVENTIONS = {
    "layer": "the whole layer: projections, batch normalizations, content and position lambdas",
    "speedup": f"time of {BASELINE}, the paper's order of computation, divided by this time",
    "us_per_position": "microseconds per position of all examples",
    "of_best": "time of the fastest implementation besides auto, divided by this time",
}
COLUMNS = columns("ms", "us_per_position", "speedup", "of_best", "temporary_bytes")


@dataclass(frozen=True, kw_only=True)
class Implementation(LayerCase):
    """An implementation of the lambda layer, by its name in `lambda_keras.layers.LambdaLayer`.

    Args:
        scope: Size of the scope along each axis.
        causal: Whether queries see only earlier positions.
    """

    scope: int
    causal: bool = False

    kind: ClassVar = "implementation"

    @property
    def identity(self):
        return {**super().identity, "scope": self.scope, "causal": self.causal}

    @property
    def title(self):
        return f"{'causal, ' * self.causal}{super().title}, scope {self.scope}"

    def dense_numbers(self):
        from lambda_keras.layers.position_lambdas import IMPLEMENTATIONS, dense_tiles

        chosen = IMPLEMENTATIONS.get(self.name)  # auto has no row
        in_tiles = dense_tiles(self.grid, (self.scope,) * self.axes) and self.name == "query_first"
        dense = chosen and chosen.any_pairs and not in_tiles
        return self.positions**2 * KEY_DIM if dense else 0  # embeddings `(n, m, u, k)`

    def layer(self):
        from lambda_keras.layers import LambdaLayer

        return LambdaLayer(
            self.depth,
            num_heads=HEADS,
            key_dim=KEY_DIM,
            scope=self.scope,
            implementation=self.name,
            causal=self.causal,
            dtype=self.dtype,
        )


def _check_odd(scope: int) -> None:
    if scope < 1 or scope % 2 == 0:
        raise ValueError(f"expected positive odd numbers. Received: {scope}")


def parse_size(size: str, divisor: int = HEADS) -> list[int]:
    """Parses `SIZExDEPTH` or `SIZExDEPTHxBATCH`; `divisor` has to divide the depth."""
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*(x[1-9]\d*)?", size):
        raise ValueError(
            f"expected SIZExDEPTH or SIZExDEPTHxBATCH, such as 56x64. Received: {size!r}"
        )
    numbers = [int(number) for number in size.split("x")]
    if numbers[1] % divisor:
        raise ValueError(f"expected depths divisible by {divisor}. Received: {size!r}")
    return numbers


def shapes(sizes: Sequence[str], batch: int) -> list[dict[str, int]]:
    """Parses the sizes of cases; `batch` is the default batch size."""
    names = ("size", "depth", "batch")
    return [{"batch": batch, **dict(zip(names, parse_size(size), strict=False))} for size in sizes]


Scopes = Annotated[
    tuple[Annotated[int, checked_by(_check_odd)], ...],
    EachOnce,
    Field(description="Scopes: odd numbers."),
]
AS = "Square feature maps or sequences, as SIZExDEPTH or SIZExDEPTHxBATCH."
Text = Annotated[str, Field(coerce_numbers_to_str=True)]  # command lines also pass numbers
Sizes = Annotated[
    tuple[Annotated[Text, checked_by(parse_size)], ...], EachOnce, Field(description=AS)
]
Batch = Annotated[int, Field(ge=1, description="Examples, for sizes that do not say.")]
DenseLimit = Annotated[
    float,
    Field(gt=0, description="What has larger tensors of all pairs of positions is not tried."),
]
Axes = Annotated[int, Field(ge=1, le=2, description="2 for feature maps, 1 for sequences.")]


class LayerSettings(BenchmarkSettings):
    """Settings of every command that measures the layer."""

    dtype: Dtype = "float32"
    """Keras dtype policy of the layer."""
    batch: Batch = 4
    scopes: Scopes = (7, 23)
    sizes: Sizes = ("56x64", "28x128", "14x256", "7x512", "64x256x1", "32x512x1")
    axes: Axes = 2
    causal: bool = False
    """Queries see only what comes before them."""
    implementations: tuple[str, ...] = Field(
        default=(),
        description=f"Implementations to compare with {BASELINE}; empty: all.",
    )

    def cases(self, dense_limit_gb: float = math.inf) -> list[list[Implementation]]:
        """Lists the cases of each feature map, the baseline first. Imports Keras.

        Raises:
            ValueError: If there is no such implementation.
        """
        from lambda_keras.layers.position_lambdas import capable

        existing = capable(axes=self.axes, causal=self.causal)
        for name in self.implementations:
            if name not in existing:
                raise ValueError(
                    f"implementations: no such implementation. {unknown(name, existing)}"
                )
        names = dict.fromkeys((BASELINE, *(self.implementations or existing)))
        ordered = sorted(names, key=lambda name: name == "auto")  # last: it refers to the others
        common = {"axes": self.axes, "dtype": self.dtype, "causal": self.causal}
        common["dense_limit_gb"] = dense_limit_gb
        return [
            [Implementation(name, scope=scope, **shape, **common) for name in ordered]
            for scope in self.scopes
            for shape in shapes(self.sizes, self.batch)
        ]


class Config(LayerSettings, BackendSettings, cli_prog_name="python -m zoo.benchmark layer"):
    """Times every implementation of the lambda layer, and `auto`, which chooses among them.

    The layer is compiled as users run it: tf.function, jax.jit, or eager PyTorch. All
    implementations are timed in turn in one process, forward and forward + backward.
    """

    dense_limit_gb: DenseLimit = 2


def run(config: Config, arguments: Sequence[str]) -> None:
    """Runs the benchmark, and prints and writes the results."""
    bench = Bench(config, arguments, CONVENTIONS)
    bench.draws_layers()
    for cases in config.cases(config.dense_limit_gb):
        beside = partial(compare, cases[0])
        bench.measure(cases, MODES, COLUMNS, beside, f"{cases[0].title}, ")
    bench.finish()


def compare(case: LayerCase, found: Mapping[str, dict[str, Any]], key: str = "ms") -> None:
    """Adds the time per position, and the ratios to the baseline and to the fastest."""
    times = {name: one[key] for name, one in found.items()}
    best = min((ms for name, ms in times.items() if ms and name != "auto"), default=None)
    for name, ms in times.items():
        us = quotient(1e3 * ms, case.batch * case.positions) if ms else None
        found[name] |= {"us_per_position": us, "speedup": quotient(times[BASELINE], ms)}
        found[name]["of_best"] = quotient(best, ms)
