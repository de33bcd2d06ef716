"""Benchmark cases, and the benchmark that times them on a Keras backend."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from zoo.benchmark.report import Report, progress, threads
from zoo.benchmark.settings import BackendSettings
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


class Bench(Report):
    """Report of cases that are timed on a Keras backend, in turn in this process.

    Args:
        config: Settings of the command.
        arguments: Command line arguments.
        packages: Distributions to list, in addition to Keras and its backend.

    Raises:
        ImportError: If the backend is not installed.
    """

    def __init__(
        self, config: BackendSettings, arguments: Sequence[str], packages: Sequence[str] = ()
    ):
        self.config, backend = config, config.start_backend()
        every = (backend.package, *packages)
        accelerator = backend.accelerator
        super().__init__(config, arguments, every, accelerator=accelerator, threads=threads())
        self.backend, self.content["backend"] = backend, backend.package

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
        return results


def quotient(numerator: float | None, denominator: float | None) -> float | None:
    """Divides two measurements; None if one is missing."""
    return numerator / denominator if numerator and denominator else None
