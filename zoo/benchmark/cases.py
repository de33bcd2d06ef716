"""Benchmark cases, and the benchmark that times them on a Keras backend."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from zoo.benchmark.report import Column, Report, print_table, progress, threads
from zoo.benchmark.settings import BackendSettings, BenchmarkSettings
from zoo.benchmark.timing import Run, time_in_turn, together

if TYPE_CHECKING:
    from zoo.benchmark.backends import Backend, Step

MEASURED = ("ms", "rounds_ms", "calls", "temporary_bytes", "memory_method", "reason")


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
        packages: Distributions to list, in addition to Keras and its backend.

    Raises:
        ImportError: If the backend is not installed.
    """

    config: BackendSettings

    def __init__(
        self,
        config: BackendSettings,
        arguments: Sequence[str],
        packages: Sequence[str] = (),
    ):
        self.backend = config.start_backend()
        name = self.backend.package
        hardware = {"accelerator": self.backend.accelerator, "threads": threads()}
        super().__init__(config, arguments, [name, *packages], hardware)
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
