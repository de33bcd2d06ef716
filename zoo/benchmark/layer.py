"""Times the lambda layer: `python -m zoo.benchmark layer`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from zoo.benchmark.cases import BASELINE, MODES, Implementation, LayerSettings
from zoo.benchmark.report import Column
from zoo.benchmark.settings import BackendSettings
from zoo.benchmark.subjects import MEMORY, MS, Bench
from zoo.benchmark.timing import time_in_turn, together

if TYPE_CHECKING:
    from zoo.benchmark.backends import Backend

CONVENTIONS = {
    "layer": "the whole layer: projections, batch normalizations, content and position lambdas",
    "position": "what the implementations differ in: position lambdas applied to their queries",
    "forward": "training=False",
    "forward_backward": "the same with training=True, and the gradients by inputs and all weights",
    "speedup": f"time of {BASELINE}, the paper's order of computation, divided by this time",
    "of_best": "time of the fastest implementation besides auto, divided by this time",
    "peak_share": "FLOPs of the part by the paper's conventions (2 x multiply-accumulates, "
    "min(scope area, map area) positions per query, x3 with backward), per second, divided by "
    "the fastest matrix product measured in this process in the same dtype; an implementation "
    "that computes less than the conventions count can exceed 1",
}
COLUMNS = (
    MS,
    Column(f"x {BASELINE}", "speedup"),
    Column("of best", "of_best"),
    Column("of peak", "peak_share", "{:.1%}".format),
    MEMORY,
)
CPU_MATRIX, ACCELERATOR_MATRIX = 2048, 8192  # height and width, for the peak


class Config(LayerSettings, BackendSettings):
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
    if config.output is not None:
        # Imported before hours of work: a missing matplotlib should not show after them.
        from zoo.benchmark import plots
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
    bench.finish(plots.plot_layer if config.output is not None else None)


def measure_peak(backend: "Backend", policy: str) -> float:
    """Returns the floating-point operations per second of the fastest large matrix product."""
    import keras

    from zoo.benchmark.backends import random_tensor

    dtype = keras.dtype_policies.get(policy).compute_dtype
    size = ACCELERATOR_MATRIX if backend.accelerator else CPU_MATRIX
    matrices = [random_tensor((size, size), dtype, seed) for seed in (1, 2)]

    def prepare():
        return together(backend.compile(keras.ops.matmul, *matrices).run)

    timing = time_in_turn({"matrix product": prepare}, 10, 0.1)["matrix product"]
    if isinstance(timing, str):
        raise ValueError(f"expected a dtype that the hardware multiplies. Received: {timing}")
    return 2 * size**3 / min(timing.rounds)


def compare(
    case: Implementation, peak: float, mode: str, figures: Mapping[str, dict[str, Any]]
) -> None:
    """Adds how every implementation does beside the baseline, the fastest one, and the peak.

    Args:
        case: One of them.
        peak: Floating-point operations per second.
        mode: Mode of the figures.
        figures: By implementation.
    """
    baseline = figures[BASELINE]["ms"]
    others = [found["ms"] for name, found in figures.items() if name != "auto"]
    best = min(filter(None, others), default=None)
    for found in figures.values():
        ms = found["ms"]
        found["speedup"] = ms and baseline and baseline / ms
        found["of_best"] = ms and best and best / ms
        found["peak_share"] = ms and case.flops(mode) / (ms / 1e3) / peak
