"""Benchmark cases, and the benchmark that times them on a Keras backend."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from zoo.benchmark.report import Column, Report, print_table, progress, threads
from zoo.benchmark.settings import (
    FORWARD,
    FORWARD_BACKWARD,
    BackendSettings,
    BenchmarkSettings,
)
from zoo.benchmark.timing import Run, time_in_turn, together

if TYPE_CHECKING:
    import keras

    from zoo.benchmark.backends import Backend, Step

MEASURED = ("ms", "rounds_ms", "calls", "temporary_bytes", "memory_method", "reason")
CONVENTIONS = {
    "ms": "median over the rounds, all in turn in one process",
    "temporary_bytes": "memory of a call beside its inputs and weights, as memory_method says",
    FORWARD: "training=False",
    FORWARD_BACKWARD: "training=True, and the gradients by inputs and all weights",
}


@dataclass(frozen=True)
class Case(ABC):
    """A benchmark case: plain data, from which other processes can build it, too."""

    name: str  # name in tables

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Fields that identify the case in reports."""

    @abstractmethod
    def step(self, mode: str, backend: "Backend") -> "Step":
        """Compiles the step of a mode."""

    def __getstate__(self) -> dict[str, Any]:  # without cached objects
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, kw_only=True)
class LayerCase(Case):
    """One layer on random inputs, on a square map or a sequence.

    Args:
        name: Name of the layer.
        size: Height and width of the map, or length of the sequence.
        depth: Number of input and output channels.
        batch: Batch size.
        axes: Number of spatial axes: 2 for maps, 1 for sequences.
        dtype: Keras dtype policy.
        dense_limit_gb: Largest size in GB of tensors over all pairs of positions.
    """

    size: int
    depth: int
    batch: int
    axes: int = 2
    dtype: str = "float32"
    dense_limit_gb: float = math.inf

    kind: ClassVar[str]  # key of `name` in reports

    @property
    def grid(self) -> tuple[int, ...]:
        """Sizes of the spatial axes."""
        return (self.size,) * self.axes

    @property
    def positions(self) -> int:
        """Number of positions per example."""
        return math.prod(self.grid)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the inputs and outputs."""
        return (self.batch, *self.grid, self.depth)

    @property
    def title(self) -> str:
        """Heading with the sizes that all compared cases share."""
        return f"{'x'.join(map(str, self.grid))}, depth {self.depth}, batch {self.batch}"

    @property
    def identity(self):
        names = ("size", "depth", "batch", "axes")
        return {**{name: getattr(self, name) for name in names}, self.kind: self.name}

    @abstractmethod
    def layer(self) -> "keras.layers.Layer":
        """Creates the layer. Imports Keras."""

    @abstractmethod
    def dense_numbers(self) -> int:
        """Counts the elements of the largest tensor over all position pairs; 0 if there is none."""

    def build(self) -> "keras.layers.Layer":
        """Builds the layer, with weights drawn from a fixed seed.

        Raises:
            MemoryError: If it needs a tensor above the limit.
        """
        import keras

        full = keras.dtype_policies.get(self.dtype).compute_dtype == "float32"
        dense_gb = self.dense_numbers() * (4 if full else 2) / 1e9
        if dense_gb > self.dense_limit_gb:
            raise MemoryError(f"one of its tensors takes {dense_gb:.1f} GB, more than the limit")
        keras.utils.set_random_seed(0)
        layer = self.layer()
        layer.build((None, *self.input_shape[1:]))
        return layer

    def step(self, mode, backend):
        from zoo.benchmark.backends import random_tensor

        layer = self.build()
        inputs = random_tensor(self.input_shape, layer.compute_dtype, 1)
        if mode == FORWARD:
            return backend.forward(layer, inputs)
        cotangent = random_tensor(self.input_shape, layer.compute_dtype, 2)
        return backend.forward_backward(layer, inputs, cotangent)


class CaseReport(Report):
    """Report of cases: each is a row, with the results of every mode."""

    def __init__(self, config: BenchmarkSettings, *details: Any):
        super().__init__(config, *details)
        self.config = config

    @abstractmethod
    def results(self, cases: Sequence[Case], mode: str, head: str) -> Mapping[str, dict[str, Any]]:
        """Measures the steps of the cases, by name; `head` begins the progress lines."""

    def measure(
        self,
        cases: Sequence[Case],
        modes: Sequence[str],
        columns: Sequence[Column],
        compare: Callable[[Mapping[str, dict[str, Any]]], None],
        title: str = "",
    ) -> None:
        """Measures cases and prints a table for each mode; each case becomes a row of the report.

        Args:
            cases: Cases to measure.
            modes: Modes of their steps.
            columns: Columns of the tables.
            compare: Function that adds comparisons to the results of a mode, by name of case.
            title: Prefix of the headings of the tables.
        """
        rows = {}
        for case in cases:
            progress(f"building {case.name}")
            rows[case.name] = case.identity
        self.rows += rows.values()
        for mode in modes:
            head = f"{title}{mode.replace('_', ' + ')}"
            found = self.results(cases, mode, head)
            compare(found)
            for name, row in rows.items():
                row[mode] = found[name]
            self.write()  # after every table, so that interruptions lose nothing
            table = [{"name": name, **row, **row[mode]} for name, row in rows.items()]
            print_table(head, "name", columns, table)

    def draws_layers(self) -> None:
        """Adds a figure to the report; a missing matplotlib fails at once, not after hours."""
        if self.output is not None:
            from zoo.benchmark.plots import plot_layers

            self.draw = plot_layers


class Bench(CaseReport):
    """Report of cases that are timed on a Keras backend, in turn in this process.

    Args:
        config: Settings of the command.
        arguments: Command line arguments.
        conventions: Definitions of the measurements.
        packages: Distributions to list, in addition to Keras and its backend.

    Raises:
        ImportError: If the backend is not installed.
    """

    config: BackendSettings

    def __init__(
        self,
        config: BackendSettings,
        arguments: Sequence[str],
        conventions: Mapping[str, str],
        packages: Sequence[str] = (),
    ):
        self.backend = config.start_backend()
        name = self.backend.package
        hardware = {"accelerator": self.backend.accelerator, "threads": threads()}
        every = {**CONVENTIONS, **conventions}
        super().__init__(config, arguments, [name, *packages], every, hardware)
        self.content["backend"] = name

    def results(self, cases, mode, head):
        steps: dict[str, Step] = {}

        def prepare(case: Case) -> Run:
            steps[case.name] = case.step(mode, self.backend)
            return together(steps[case.name].run)

        computations = {case.name: partial(prepare, case) for case in cases}
        failures: dict[str, str] = {}
        rounds, shortest = self.config.repeats, self.config.min_ms / 1e3
        timings = time_in_turn(computations, rounds, shortest, f"{head}: ", failures)
        results = {
            case.name: {**dict.fromkeys(MEASURED), "reason": failures.get(case.name)}
            for case in cases
        }
        for name, timing in timings.items():
            found, step = results[name], steps[name]
            found["ms"] = 1e3 * timing.seconds
            found["rounds_ms"] = [1e3 * seconds for seconds in timing.rounds]
            found["calls"] = timing.calls
            if self.config.memory:
                progress(f"{head}: memory of {name}")
                found["temporary_bytes"] = step.backend.temporary_bytes(step)
                found["memory_method"] = step.backend.memory_method
        progress("")
        return results


def quotient(numerator: float | None, denominator: float | None) -> float | None:
    """Divides two measurements; None if one is missing."""
    return numerator / denominator if numerator and denominator else None
