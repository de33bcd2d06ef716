"""Benchmark cases, and the bench that times them on a Keras backend."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from zoo.benchmark import fresh, memory
from zoo.benchmark.report import Column, Report, digits, print_table, progress, threads
from zoo.benchmark.settings import FORWARD, OUT_OF_MEMORY, BackendSettings
from zoo.benchmark.timing import Run, Timing, time_in_turn, together

if TYPE_CHECKING:
    import keras

    from zoo.benchmark.backends import Backend, Step

FIGURES = ("ms", "rounds_ms", "calls", "variant", "variants")
FIGURES += ("temporary_bytes", "memory_method", "memory_reason", "reason")
# How NumPy, C++, the backends and the kernel say that memory is not enough.
TOO_LARGE = re.compile(
    "MemoryError|bad_alloc|ResourceExhausted|RESOURCE_EXHAUSTED|OutOfMemory|out of memory|"
    "cannot allocate memory|can't allocate memory|SIGKILL",
    re.IGNORECASE,
)
CONVENTIONS = {
    "ms": "median over the rounds, all in turn in one process",
    "temporary_bytes": "memory of a call beside its inputs and weights, as memory_method says",
}
MS = Column("ms", "ms")
MEMORY = Column("MB", "temporary_bytes", partial(digits, factor=1e-6))


@dataclass(frozen=True)
class Subject(ABC):
    """A benchmark case. Its fields are plain data, so that a new process can build it, too."""

    name: str  # what tables call it

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Fields of reports in addition to measurements."""

    @abstractmethod
    def steps(self, mode: str, backend: "Backend") -> "Mapping[str, Callable[[], Step]]":
        """Returns functions that compile a step of a mode, by variant; the fastest counts."""

    def __getstate__(self) -> dict[str, Any]:  # without what it has built
        return {field.name: getattr(self, field.name) for field in fields(self)}


class LayerSubject(Subject):
    """One layer on random inputs."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the inputs."""

    @property
    @abstractmethod
    def filters(self) -> int:
        """Channels of the outputs."""

    @abstractmethod
    def build(self) -> "keras.layers.Layer":
        """Returns the built layer; its weights are drawn from a fixed seed."""

    def steps(self, mode, backend):
        return {"": lambda: self._step(mode, backend)}

    def _step(self, mode: str, backend: "Backend") -> "Step":
        from zoo.benchmark.backends import random_tensor

        layer = self.build()
        inputs = random_tensor(self.input_shape, layer.compute_dtype, 1)
        if mode == FORWARD:
            return backend.forward(layer, inputs)
        cotangent = random_tensor((*self.input_shape[:-1], self.filters), layer.compute_dtype, 2)
        return backend.forward_backward(layer, inputs, cotangent)


class Bench(Report):
    """The report of what is timed on a Keras backend.

    Args:
        config: Settings of the command.
        arguments: Its command line arguments.
        conventions: What the words of the report mean.
        packages: Distributions whose versions matter besides Keras and its backend.

    Raises:
        ImportError: If the backend is not installed.
    """

    def __init__(
        self,
        config: BackendSettings,
        arguments: Sequence[str],
        conventions: Mapping[str, str],
        packages: Sequence[str] = (),
    ):
        self.config, self.backend = config, config.start_backend()
        name = self.backend.package
        hardware = {"accelerator": self.backend.accelerator, "threads": threads()}
        conventions = {**CONVENTIONS, **conventions}
        super().__init__(config, arguments, [name, *packages], conventions, hardware)
        self.content["backend"] = name
        if self.output is not None:
            # Imported before hours of work: a missing matplotlib should not show after them.
            from zoo.benchmark.plots import PICTURES

            self.draw = PICTURES[self.content["benchmark"]]

    def measure(
        self,
        subjects: Sequence[Subject],
        modes: Sequence[str],
        columns: Sequence[Column],
        compare: Callable[[str, Mapping[str, dict[str, Any]]], None],
        title: str = "",
        limits: fresh.Limits | None = None,
    ) -> None:
        """Times subjects and prints a table for each mode; each subject has a row in the report.

        Args:
            subjects: What to time.
            modes: Modes that they know.
            columns: Of the tables.
            compare: Is given a mode and the figures of all by their names; adds to the figures how
                the subjects do beside each other.
            title: What the heads of the tables begin with.
            limits: Of one fresh process for each subject and mode, where one may need too much;
                None: they are timed in turn in this process.
        """
        rows = {}
        for subject in subjects:
            progress(f"building {subject.name}")
            rows[subject.name] = subject.identity
        self.rows += rows.values()
        for mode in modes:
            head = f"{title}{mode.replace('_', ' + ')}"
            if limits is None:
                figures = measure_in_turn(subjects, mode, self.config, self.backend, head)
            else:
                figures = self._measure_apart(subjects, mode, head, limits)
            compare(mode, figures)
            for name, row in rows.items():
                row[mode] = figures[name]
            self.write()  # after every table, so that nothing is lost
            table = [{"name": name, **row, **row[mode]} for name, row in rows.items()]
            print_table(head, "name", columns, table)

    def _measure_apart(
        self, subjects: Sequence[Subject], mode: str, head: str, limits: fresh.Limits
    ) -> dict[str, dict[str, Any]]:
        figures = {}
        for subject in subjects:
            progress(f"{head}: {subject.name} in a process of its own")
            environment = {"KERAS_BACKEND": self.backend.package}
            arguments = (subject, mode, self.config)
            answer = fresh.call(measure_alone, *arguments, environment=environment, limits=limits)
            if TOO_LARGE.search(answer.get("reason") or ""):
                answer["reason"] = f"{OUT_OF_MEMORY}: {answer['reason']}"
            figures[subject.name] = {**dict.fromkeys(FIGURES), **answer}
        progress("")
        return figures


def measure_alone(subject: Subject, mode: str, config: BackendSettings) -> dict[str, Any]:
    """Returns the figures of one subject; for a fresh process."""
    from zoo.benchmark.backends import current_backend

    return measure_in_turn([subject], mode, config, current_backend(config.xla))[subject.name]


def measure_in_turn(
    subjects: Sequence[Subject],
    mode: str,
    config: BackendSettings,
    backend: "Backend",
    head: str = "",
) -> dict[str, dict[str, Any]]:
    """Returns the figures of subjects by their names, all timed in turn in this process.

    Args:
        subjects: What to time.
        mode: A mode that they know.
        config: How often, and whether to measure memory.
        backend: The backend that Keras runs on.
        head: What the lines that tell what is going on begin with.
    """
    compile_steps = {
        _label(subject, variant): compile_step
        for subject in subjects
        for variant, compile_step in subject.steps(mode, backend).items()
    }
    steps: dict[str, Step] = {}

    def prepare(label: str) -> Run:
        steps[label] = compile_steps[label]()
        return together(steps[label].run)

    computations = {label: partial(prepare, label) for label in compile_steps}
    failures: dict[str, str] = {}
    timings = time_in_turn(computations, config.repeats, config.min_ms / 1e3, f"{head}: ", failures)
    outcomes: dict[str, Timing | str] = {**timings, **failures}
    figures = {}
    for subject in subjects:
        variants = subject.steps(mode, backend)
        found = fastest({variant: outcomes[_label(subject, variant)] for variant in variants})
        if config.memory and found["ms"]:
            progress(f"{head}: memory of {subject.name}")
            variant = found["variant"] or ""
            step = steps[_label(subject, variant)]
            found |= _memory(subject, mode, variant, step, backend)
        figures[subject.name] = found
    progress("")
    return figures


def _memory(
    subject: Subject, mode: str, variant: str, step: "Step", backend: "Backend"
) -> dict[str, Any]:
    method = step.backend.memory_method
    if method:
        return {"temporary_bytes": step.backend.temporary_bytes(step), "memory_method": method}
    environment = {"KERAS_BACKEND": backend.package}
    arguments = (subject, mode, variant, backend.xla)
    answer = fresh.call(peak_of_step, *arguments, environment=environment)
    return {
        "temporary_bytes": answer.get("temporary_bytes"),
        "memory_method": memory.METHOD,
        "memory_reason": answer.get("reason"),
    }


def _label(subject: Subject, variant: str) -> str:
    return f"{subject.name} {variant}".rstrip()


def fastest(variants: Mapping[str, Timing | str]) -> dict[str, Any]:
    """Returns the figures of the fastest variant, or why there is none."""
    figures: dict[str, Any] = dict.fromkeys(FIGURES)
    timed = {name: timing for name, timing in variants.items() if isinstance(timing, Timing)}
    if not timed:
        return figures | {"reason": next(iter(variants.values()), "no such mode")}
    name, best = min(timed.items(), key=lambda item: item[1].seconds)
    figures["ms"] = 1e3 * best.seconds
    figures["rounds_ms"] = [1e3 * seconds for seconds in best.rounds]
    figures["calls"] = best.calls
    if name:  # one of several
        figures["variant"] = name
        figures["variants"] = {
            name: 1e3 * timing.seconds if isinstance(timing, Timing) else timing
            for name, timing in variants.items()
        }
    return figures


def peak_of_step(subject: Subject, mode: str, variant: str, xla: bool) -> dict[str, int]:
    """Returns by how much resident memory grows during one step; for a fresh process."""
    from zoo.benchmark.backends import current_backend

    memory.check_platform("memory")
    step = subject.steps(mode, current_backend(xla))[variant]()
    step.run(2)
    return {"temporary_bytes": memory.peak_growth(lambda: step.run(1))}
