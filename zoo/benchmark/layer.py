"""Times the lambda layer: `python -m zoo.benchmark layer`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from zoo.benchmark import memory, report
from zoo.benchmark.cases import BASELINE, FORWARD, FORWARD_BACKWARD, MODES, Case, LayerSettings
from zoo.benchmark.settings import TimedSettings
from zoo.benchmark.timing import Timing, time_in_turn

if TYPE_CHECKING:
    from zoo.benchmark.backends import Backend

CONVENTIONS = {
    "layer": "the whole layer: projections, batch normalizations, content and position lambdas",
    "position": "what the implementations differ in: position lambdas applied to their queries",
    "forward": "training=False",
    "forward_backward": "the same with training=True, and the gradients by inputs and all weights",
    "ms": "median over the rounds, all implementations in turn in one process",
    "speedup": f"time of {BASELINE}, the paper's order of computation, divided by this time",
    "of_best": "time of the fastest implementation besides auto, divided by this time",
    "peak_share": "FLOPs of the part by the paper's conventions (2 x multiply-accumulates, "
    "min(scope area, map area) positions per query, x3 with backward), per second, divided by "
    "the fastest matrix product measured in this process in the same dtype; an implementation "
    "that computes less than the conventions count can exceed 1",
}
CPU_MATRIX, ACCELERATOR_MATRIX = 2048, 8192  # height and width, for the peak
COLUMNS = ("ms", "x einsum", "of best", "of peak", "MB")


class LayerConfig(LayerSettings, TimedSettings):
    """Times every implementation of the lambda layer, and `auto`, which chooses among them.

    The layer, or its position lambdas alone, is compiled as users run it: tf.function, jax.jit, or
    eager PyTorch. All implementations are timed in turn in one process, forward and forward +
    backward.
    """

    model_config = SettingsConfigDict(cli_prog_name="python -m zoo.benchmark layer")

    dense_limit_gb: float = Field(
        default=2,
        gt=0,
        description="Dense embeddings (n, m, u, k) larger than this are not tried.",
    )


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then measures, prints and writes.

    Args:
        arguments: Command line arguments without the program's name.

    Raises:
        ValueError: If a setting is wrong.
        ImportError: If the backend is not installed.
    """
    config = LayerConfig.from_command_line(arguments)
    backend = config.start_backend()
    if config.output is not None:
        # Imported before hours of work: a missing matplotlib should not show after them.
        from zoo.benchmark import plots
    import keras

    from lambda_keras.layers.lambda_layer import CHOICES

    implementations = config.chosen(CHOICES["implementation"])
    if config.memory and not backend.memory_method:
        memory.check_platform()
    result = report.describe("layer", arguments, config, [backend.package])
    result["hardware"]["accelerator"] = backend.accelerator
    result["backend"] = backend.package
    result["conventions"] = CONVENTIONS
    if config.memory:
        result["conventions"]["temporary_bytes"] = backend.memory_method or memory.METHOD
    report.print_head(result)
    compute_dtype = keras.dtype_policies.get(config.dtype).compute_dtype
    peak = measure_peak(backend, compute_dtype)
    result["matrix_peak_gflops"] = peak / 1e9
    print(f"matrix products in {compute_dtype}: {peak / 1e9:.0f} GFLOP/s at best\n")
    result["rows"] = []
    for case in config.cases():
        rows = measure_case(case, implementations, config, backend, peak)
        print_rows(case, rows)
        result["rows"] += rows
        if config.output is not None:  # after each case, so that nothing is lost
            report.write(result, config.output)
    if config.output is not None:
        plots.plot_layer(result, config.output.with_suffix(".png"))
        print(f"wrote {config.output} and {config.output.with_suffix('.png')}")


def measure_peak(backend: "Backend", dtype: str) -> float:
    """Returns the floating-point operations per second of the fastest large matrix product."""
    from keras import ops

    from zoo.benchmark.backends import random_tensor

    size = ACCELERATOR_MATRIX if backend.accelerator else CPU_MATRIX
    matrices = [random_tensor((size, size), dtype, seed) for seed in (1, 2)]

    def prepare():
        return backend.runner(backend.compile(ops.matmul, *matrices))

    timing = time_in_turn({"matrix product": prepare}, 10, 0.1, report.progress)["matrix product"]
    if isinstance(timing, str):
        raise ValueError(f"expected a dtype that the hardware multiplies. Received: {timing}")
    return 2 * size**3 / min(timing.rounds)


def measure_case(
    case: Case, implementations: Sequence[str], config: LayerConfig, backend: "Backend", peak: float
) -> list[dict[str, Any]]:
    """Returns one row per implementation."""
    import keras

    from lambda_keras.layers.position_lambdas import DENSE

    itemsize = 4 if keras.dtype_policies.get(config.dtype).compute_dtype == "float32" else 2
    dense_gb = case.dense_bytes(itemsize) / 1e9
    rows = {}
    for name in implementations:
        reason = None
        if name in DENSE and dense_gb > config.dense_limit_gb:
            reason = f"its embeddings alone would take {dense_gb:.1f} GB, more than the limit"
        rows[name] = {
            **vars(case),
            "implementation": name,
            **{mode: _unmeasured(reason) for mode in MODES},
        }
    possible = [name for name in implementations if rows[name][FORWARD]["reason"] is None]
    for mode in MODES:
        steps = {}

        def prepare(name: str, mode=mode, steps=steps) -> Callable[[int], None]:
            steps[name] = backend.step(case, name, config.dtype, mode)
            return backend.runner(steps[name])

        timings = time_in_turn(
            {name: lambda name=name: prepare(name) for name in possible},
            config.repeats,
            config.min_ms / 1e3,
            lambda text, mode=mode: report.progress(f"{case}, {mode}: {text}"),
        )
        figures = _figures(timings, case.flops(mode), peak)
        for name in possible:
            rows[name][mode].update(figures[name])
            if config.memory and backend.memory_method and name in steps:
                rows[name][mode]["temporary_bytes"] = backend.temporary_bytes(steps[name])
    if config.memory and not backend.memory_method:
        for name in possible:
            report.progress(f"{case}: memory of {name}")
            peaks = memory.measure(case, name, config.dtype, backend.package, config.xla)
            for mode in MODES:
                rows[name][mode]["temporary_bytes"] = peaks.get(mode)
                rows[name][mode]["memory_reason"] = peaks.get("reason")
    report.progress("")
    return list(rows.values())


def _unmeasured(reason: str | None) -> dict[str, Any]:
    names = ("ms", "rounds_ms", "calls", "speedup", "of_best", "peak_share", "temporary_bytes")
    return {**dict.fromkeys(names), "reason": reason, "memory_reason": reason}


def _figures(timings: dict[str, Timing | str], flops: float, peak: float) -> dict[str, dict]:
    seconds = {name: time.seconds for name, time in timings.items() if isinstance(time, Timing)}
    baseline = seconds.get(BASELINE)
    best = min((time for name, time in seconds.items() if name != "auto"), default=None)
    figures: dict[str, dict] = {}
    for name, timing in timings.items():
        if isinstance(timing, str):
            figures[name] = {"reason": timing}
            continue
        figures[name] = {
            "ms": 1e3 * timing.seconds,
            "rounds_ms": [1e3 * time for time in timing.rounds],
            "calls": timing.calls,
            "speedup": baseline and baseline / timing.seconds,
            "of_best": best and best / timing.seconds,
            "peak_share": flops / timing.seconds / peak,
        }
    return figures


def print_rows(case: Case, rows: Sequence[dict[str, Any]]) -> None:
    """Prints the table of one case, with what could not be measured and why."""
    print(case)
    width = 9 * len(COLUMNS)
    print(f"{'':18}{'forward':>{width}}  {'forward + backward':>{width}}")
    print(report.table_line(["implementation", *COLUMNS]), report.table_line(["", *COLUMNS], 1))
    reasons = {}
    for row in rows:
        cells = {mode: _cells(row[mode]) for mode in MODES}
        print(
            report.table_line([row["implementation"], *cells[FORWARD]]),
            report.table_line(["", *cells[FORWARD_BACKWARD]], 1),
        )
        for mode in MODES:
            for kind in ("reason", "memory_reason"):
                if row[mode][kind]:
                    reasons.setdefault((row["implementation"], row[mode][kind]), mode)
    for (implementation, reason), mode in reasons.items():
        print(f"  - {implementation}, {mode}: {reason}")
    print(flush=True)


def _cells(figures: dict[str, Any]) -> list[str]:
    share = figures["peak_share"]
    return [
        report.digits(figures["ms"]),
        report.digits(figures["speedup"]),
        report.digits(figures["of_best"]),
        "-" if share is None else f"{share:.1%}",
        report.digits(figures["temporary_bytes"], 1e-6),
    ]
