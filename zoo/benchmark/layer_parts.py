"""Where the time of a lambda layer goes: `python -m zoo.benchmark layer-parts --help`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from zoo.benchmark.layer import (
    HEADS,
    KEY_DIM,
    Implementation,
    Sizes,
    check_odd,
    measure_peak,
    parse_size,
)
from zoo.benchmark.report import Column, Report, threads
from zoo.benchmark.settings import FORWARD, BackendSettings, Dtype
from zoo.benchmark.timing import Run, time_in_turn, together
from zoo.cli.settings import checked_by

if TYPE_CHECKING:
    from zoo.benchmark.backends import Backend, Step

WHOLE, PRODUCT = "the whole layer", "of these, the matrix product"
CONVENTIONS = {
    WHOLE: "inference, with the implementation that auto chooses; parts are compiled and timed "
    "alone, in turn with it, and each has the cost of a call in it",
    "a call": "of a function that returns what it gets",
    "peak_share": "floating-point operations by the paper's conventions per second, divided by the "
    "fastest matrix product measured in this process",
}
COLUMNS = (
    Column("ms", "ms"),
    Column("of the layer", "share", "{:.0%}".format),
    Column("of peak", "peak_share", "{:.0%}".format),
)


class Config(BackendSettings, cli_prog_name="python -m zoo.benchmark layer-parts"):
    """Times a lambda layer on square maps, forward, and its parts alone."""

    sizes: Sizes = ("7x512x8", "7x512x64", "8x512x8", "8x512x64", "10x512x8", "10x512x64")
    scope: Annotated[int, checked_by(check_odd)] = Field(default=23, description="An odd number.")
    batch: int = Field(default=8, ge=1, description="Examples, for sizes that do not say.")
    dtype: Dtype = Field(default="float32", description="Keras dtype policy of the layer.")


def run(config: Config, arguments: Sequence[str]) -> None:
    """Measures, prints and writes."""
    backend = config.start_backend()
    hardware = {"accelerator": backend.accelerator, "threads": threads()}
    report = Report(config, arguments, [backend.package], CONVENTIONS, hardware)
    peak = measure_peak(backend, config.dtype)
    report.content["matrix_peak_gflops"] = peak / 1e9
    for size, depth, *batch in map(parse_size, config.sizes):
        subject = Implementation(
            *("auto", size, depth, batch[0] if batch else config.batch, config.scope),
            dtype=config.dtype,
        )
        compiled = {name: partial(_prepare, step) for name, step in steps(subject, backend).items()}
        timings = time_in_turn(compiled, config.repeats, config.min_ms / 1e3, f"{subject.case}: ")
        ms = {name: 1e3 * timing.seconds for name, timing in timings.items()}
        report.table(subject.case, "part", COLUMNS, rows(subject, ms, peak))
    report.finish()


def _prepare(step: "Callable[[], Step]") -> Run:
    return together(step().run)


def rows(subject: Implementation, ms: dict[str, float], peak: float) -> list[dict[str, Any]]:
    """A row for each part, with the share of the peak where its operations are known."""
    positions = subject.batch * subject.size**2
    columns = (HEADS + 1) * KEY_DIM + subject.depth // HEADS
    flops = {WHOLE: subject.flops(FORWARD), PRODUCT: 2 * positions * subject.depth * columns}
    return [
        {
            "size": subject.size,
            "depth": subject.depth,
            "batch": subject.batch,
            "part": name,
            "ms": time,
            "share": time / ms[WHOLE],
            "peak_share": flops[name] / (time / 1e3) / peak if name in flops else None,
        }
        for name, time in ms.items()
    ]


def steps(subject: Implementation, backend: "Backend") -> "dict[str, Callable[[], Step]]":
    """What compiles the layer and each of its parts, by name."""
    from keras import ops

    from lambda_keras.layers.projections import project
    from zoo.benchmark.backends import random_tensor

    layer: Any = subject.build()
    inputs = random_tensor(subject.input_shape, layer.compute_dtype, 1)
    (group,) = layer.project_inputs(inputs, training=False)
    kernels = [layer.query_kernel, layer.value_kernel, layer.key_kernel]
    kernels = [ops.cast(ops.convert_to_tensor(kernel), layer.compute_dtype) for kernel in kernels]
    kernel = ops.concatenate(kernels, axis=1)
    rows = ops.reshape(inputs, (-1, subject.depth))

    def projections(inputs: Any) -> Any:
        (found,) = layer.project_inputs(inputs, training=False)
        return found.queries, found.keys, found.values

    def apply(**parts: Any) -> Any:
        chosen = group._replace(**{"keys": None, "embeddings": None, **parts})
        return layer.apply_lambdas(chosen, None, None, subject.grid, subject.grid, False)

    def content(queries: Any, keys: Any, values: Any) -> Any:
        return apply(queries=queries, keys=keys, values=values)

    def position(queries: Any, embeddings: Any, values: Any) -> Any:
        return apply(queries=queries, embeddings=embeddings, values=values)

    return {
        WHOLE: lambda: backend.forward(layer, inputs),
        "projections and normalizations": lambda: backend.compile(projections, inputs),
        "of these, the projections": lambda: backend.compile(lambda x: project(x, kernels), inputs),
        PRODUCT: lambda: backend.compile(ops.matmul, rows, kernel),
        "content lambda": lambda: backend.compile(content, group.queries, group.keys, group.values),
        "position lambdas": lambda: backend.compile(
            position, group.queries, group.embeddings, group.values
        ),
        "a call": lambda: backend.compile(lambda x: x, inputs),
    }
