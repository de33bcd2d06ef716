"""Times the lambda layer: `python -m zoo.benchmark layer`."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from zoo.benchmark.report import Column
from zoo.benchmark.settings import (
    BASELINE,
    FORWARD,
    FORWARD_BACKWARD,
    LAYER,
    POSITION,
    BackendSettings,
    BenchmarkSettings,
    Dtype,
    EachOnce,
    each,
)
from zoo.benchmark.subjects import MEMORY, MS, Bench, LayerSubject
from zoo.benchmark.timing import time_in_turn, together
from zoo.errors import unknown

if TYPE_CHECKING:
    from zoo.benchmark.backends import Backend

HEADS, KEY_DIM = 4, 16  # the paper's, and the defaults of LambdaLayer
MODES = (FORWARD, FORWARD_BACKWARD)
Part = Literal["layer", "position"]
CONVENTIONS = {
    "layer": "the whole layer: projections, batch normalizations, content and position lambdas",
    "position": "what the implementations differ in: position lambdas applied to their queries",
    "forward": "training=False",
    "forward_backward": "the same with training=True, and the gradients by inputs and all weights",
    "speedup": f"time of {BASELINE}, the paper's order of computation, divided by this time",
    "us_per_position": "microseconds per position of all examples",
    "of_best": "time of the fastest implementation besides auto, divided by this time",
    "peak_share": "FLOPs of the part by the paper's conventions (2 x multiply-accumulates, "
    "min(scope area, map area) positions per query, x3 with backward), per second, divided by "
    "the fastest matrix product measured in this process in the same dtype; an implementation "
    "that computes less than the conventions count can exceed 1",
}
COLUMNS = (
    MS,
    Column("us/position", "us_per_position"),
    Column(f"x {BASELINE}", "speedup"),
    Column("of best", "of_best"),
    Column("of peak", "peak_share", "{:.1%}".format),
    MEMORY,
)
CPU_MATRIX, ACCELERATOR_MATRIX = 2048, 8192  # height and width, for the peak


@dataclass(frozen=True)
class Implementation(LayerSubject):
    """An implementation of the lambda layer, on random inputs on a square map or a sequence.

    Args:
        name: The implementation, by its name in `lambda_keras.layers.LambdaLayer`.
        size: Height and width of the map, or length of the sequence.
        depth: Channels, before and after the layer.
        batch: Examples.
        scope: Its size along each axis.
        part: The whole layer, or the position lambdas applied to their queries alone: what the
            implementations differ in.
        dtype: Keras dtype policy.
        dense_limit_gb: Dense embeddings larger than this are refused.
        axes: 2 for maps, 1 for sequences.
        causal: Whether queries see only what comes before them.
    """

    size: int
    depth: int
    batch: int
    scope: int
    part: Part = LAYER
    dtype: str = "float32"
    dense_limit_gb: float = math.inf
    axes: int = 2
    causal: bool = False

    @property
    def identity(self):
        names = ("size", "depth", "batch", "scope", "part", "axes", "causal")
        return {**{name: getattr(self, name) for name in names}, "implementation": self.name}

    @property
    def grid(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return (self.size,) * self.axes

    @property
    def case(self) -> str:
        """Sizes that all compared implementations share, as a heading."""
        alone = ", position lambdas alone" if self.part == POSITION else ""
        causal = "causal, " if self.causal else ""
        map_size = f"{causal}{'x'.join(map(str, self.grid))}, depth {self.depth}"
        return f"{map_size}, batch {self.batch}, scope {self.scope}{alone}"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of inputs; queries and values, side by side, for the position lambdas alone."""
        channels = self.depth if self.part == LAYER else HEADS * KEY_DIM + self.depth // HEADS
        return (self.batch, *self.grid, channels)

    @property
    def filters(self) -> int:
        return self.depth

    def flops(self, mode: str) -> float:
        """Floating-point operations by the paper's conventions, however they are computed.

        Forward and backward together count three times the forward.
        """
        from lambda_keras.layers import LambdaLayer
        from lambda_keras.layers.flops import POSITION as POSITIONS

        layer = LambdaLayer(self.depth, num_heads=HEADS, key_dim=KEY_DIM, scope=self.scope)
        parts = layer.count_flops((self.batch, *self.grid, self.depth))
        forward = self.batch * (sum(parts.values()) if self.part == LAYER else parts[POSITIONS])
        return forward * (3 if mode == FORWARD_BACKWARD else 1)

    def dense_bytes(self, itemsize: int) -> int:
        """Size of the embeddings `(n, m, u, k)` that the dense implementations build."""
        return math.prod(self.grid) ** 2 * KEY_DIM * itemsize

    def build(self):
        import keras

        from lambda_keras.layers import LambdaLayer
        from lambda_keras.layers.position_lambdas import IMPLEMENTATIONS, dense_tiles
        from zoo.benchmark.position_lambdas import PositionLambdas

        full = keras.dtype_policies.get(self.dtype).compute_dtype == "float32"
        dense_gb = self.dense_bytes(itemsize=4 if full else 2) / 1e9
        chosen = IMPLEMENTATIONS.get(self.name)  # auto has no row
        in_tiles = dense_tiles(self.grid, (self.scope,) * self.axes) and self.name == "query_first"
        if chosen and chosen.any_pairs and not in_tiles and dense_gb > self.dense_limit_gb:
            raise MemoryError(f"its embeddings alone take {dense_gb:.1f} GB, more than the limit")
        keras.utils.set_random_seed(0)
        layer = (LambdaLayer if self.part == LAYER else PositionLambdas)(
            self.depth,
            num_heads=HEADS,
            key_dim=KEY_DIM,
            scope=self.scope,
            implementation=self.name,
            causal=self.causal,
            dtype=self.dtype,
        )
        layer.build((None, *self.input_shape[1:]))
        return layer


def check_odd(scope: int) -> None:
    """Raises `ValueError` for what is no scope."""
    if scope < 1 or scope % 2 == 0:
        raise ValueError(f"expected positive odd numbers. Received: {scope}")


def parse_size(size: str) -> list[int]:
    """Reads `SIZExDEPTH` or `SIZExDEPTHxBATCH`, with a depth that the heads divide."""
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*(x[1-9]\d*)?", size):
        raise ValueError(
            f"expected SIZExDEPTH or SIZExDEPTHxBATCH, such as 56x64. Received: {size!r}"
        )
    numbers = [int(number) for number in size.split("x")]
    if numbers[1] % HEADS:
        raise ValueError(
            f"expected depths divisible by {HEADS}, the number of heads. Received: {size!r}"
        )
    return numbers


Scopes = Annotated[
    tuple[int, ...], EachOnce, each(check_odd), Field(description="Scopes: odd numbers.")
]
Sizes = Annotated[
    tuple[str, ...],
    EachOnce,
    each(parse_size),
    Field(description="Square feature maps or sequences, as SIZExDEPTH or SIZExDEPTHxBATCH."),
]


class LayerSettings(BenchmarkSettings):
    """Settings of every command that measures the layer."""

    part: Part = Field(
        default=LAYER,
        description="The whole layer, or the position lambdas applied to their queries alone.",
    )
    dtype: Dtype = Field(default="float32", description="Keras dtype policy of the layer.")
    batch: int = Field(default=4, ge=1, description="Examples, for sizes that do not say.")
    scopes: Scopes = (7, 23)
    sizes: Sizes = ("56x64", "28x128", "14x256", "7x512", "64x256x1", "32x512x1")
    axes: int = Field(default=2, ge=1, le=2, description="2 for feature maps, 1 for sequences.")
    causal: bool = Field(default=False, description="Queries see only what comes before them.")
    implementations: tuple[str, ...] = Field(
        default=(),
        description="Implementations beside einsum, which all are compared with; empty: all.",
    )

    def subjects(self, dense_limit_gb: float = math.inf) -> list[list[Implementation]]:
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
        ordered = sorted(names, key=lambda name: name == "auto")  # last: it quotes the others
        return [
            [
                Implementation(
                    *(name, size, depth, batch[0] if batch else self.batch),
                    *(scope, self.part, self.dtype, dense_limit_gb, self.axes, self.causal),
                )
                for name in ordered
            ]
            for scope in self.scopes
            for size, depth, *batch in map(parse_size, self.sizes)
        ]


class Config(LayerSettings, BackendSettings, cli_prog_name="python -m zoo.benchmark layer"):
    """Times every implementation of the lambda layer, and `auto`, which chooses among them.

    The layer, or its position lambdas alone, is compiled as users run it: tf.function, jax.jit, or
    eager PyTorch. All implementations are timed in turn in one process, forward and forward +
    backward.
    """

    dense_limit_gb: float = Field(
        default=2,
        gt=0,
        description="Dense embeddings (n, m, u, k) larger than this are not tried.",
    )


def run(config: Config, arguments: Sequence[str]) -> None:
    """Measures, prints and writes."""
    bench = Bench(config, arguments, CONVENTIONS)
    cases = config.subjects(config.dense_limit_gb)
    peak = measure_peak(bench.backend, config.dtype)
    bench.content["matrix_peak_gflops"] = peak / 1e9
    print(f"matrix products: {peak / 1e9:.0f} GFLOP/s at best")
    for implementations in cases:
        first = implementations[0]
        bench.measure(
            implementations, MODES, COLUMNS, partial(compare, first, peak), f"{first.case}, "
        )
    bench.finish()


def measure_peak(backend: "Backend", policy: str) -> float:
    """Returns the floating-point operations per second of the fastest large matrix product."""
    import keras

    from zoo.benchmark.backends import random_tensor

    dtype = keras.dtype_policies.get(policy).compute_dtype
    size = ACCELERATOR_MATRIX if backend.accelerator else CPU_MATRIX
    matrices = [random_tensor((size, size), dtype, seed) for seed in (1, 2)]

    def prepare():
        return together(backend.compile(keras.ops.matmul, *matrices).run)

    name, failures = "matrix product", {}
    timings = time_in_turn({name: prepare}, 10, 0.1, failures=failures)
    if failures:
        raise ValueError(
            f"expected a dtype that the hardware multiplies. Received: {failures[name]}"
        )
    return 2 * size**3 / min(timings[name].rounds)


def compare(
    case: Implementation, peak: float, mode: str, figures: Mapping[str, dict[str, Any]]
) -> None:
    """Adds how every implementation does beside the baseline, the fastest one, and the peak."""
    baseline = figures[BASELINE]["ms"]
    others = [found["ms"] for name, found in figures.items() if name != "auto"]
    best = min(filter(None, others), default=None)
    for found in figures.values():
        ms = found["ms"]
        positions = case.batch * math.prod(case.grid)
        found["us_per_position"] = ms and 1e3 * ms / positions
        found["speedup"] = ms and baseline and baseline / ms
        found["of_best"] = ms and best and best / ms
        found["peak_share"] = ms and case.flops(mode) / (ms / 1e3) / peak
