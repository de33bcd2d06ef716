"""What is timed on a Keras backend, and the bench that times it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from zoo.benchmark import fresh, memory
from zoo.benchmark.report import Column, Report, digits, print_table, progress, threads
from zoo.benchmark.settings import BackendSettings
from zoo.benchmark.timing import Timing, time_in_turn, together

if TYPE_CHECKING:
    from zoo.benchmark.backends import Backend, Step

FORWARD, FORWARD_BACKWARD, TRAINING = "forward", "forward_backward", "training"
MixedDtype = Literal["float32", "mixed_bfloat16", "mixed_float16"]
Dtype = Literal[MixedDtype, "bfloat16", "float16"]

FIGURES = ("ms", "rounds_ms", "calls", "variant", "variants")
FIGURES += ("temporary_bytes", "memory_method", "memory_reason", "reason")
CONVENTIONS = {
    "ms": "median over the rounds, all in turn in one process",
    "temporary_bytes": "memory of a call beside its inputs and weights, as memory_method says",
}
MS = Column("ms", "ms")
MEMORY = Column("MB", "temporary_bytes", partial(digits, factor=1e-6))


@dataclass(frozen=True)
class Subject(ABC):
    """What is timed. Its fields are plain data, so that a fresh process can build it, too."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What tables call it."""

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What reports say of it beside its figures."""

    @abstractmethod
    def steps(self, mode: str, backend: "Backend") -> "Mapping[str, Callable[[], Step]]":
        """Returns what compiles a step of a mode, by variant.

        Of several variants the fastest counts; there is none if the subject has no such mode.
        """

    def __getstate__(self) -> dict[str, Any]:  # without what it has built
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Bench:
    """Times subjects on a Keras backend, prints tables and writes a report.

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
        self.report = Report(
            config, arguments, [name, *packages], {**CONVENTIONS, **conventions}, hardware
        )
        self.report.content["backend"] = name

    def measure(
        self,
        subjects: Sequence[Subject],
        modes: Sequence[str],
        columns: Sequence[Column],
        compare: Callable[[str, Mapping[str, dict[str, Any]]], None],
        title: str = "",
    ) -> None:
        """Times subjects in turn, mode by mode; the report gets one row of each.

        Args:
            subjects: What to time.
            modes: Modes that they know.
            columns: Of the table of a mode.
            compare: Is given a mode and the figures of all by their names; adds to the figures how
                the subjects do beside each other.
            title: What the heads of the tables begin with.
        """
        rows = {}
        for subject in subjects:
            progress(f"building {subject.name}")
            rows[subject.name] = subject.identity
        self.report.add(rows.values())
        for mode in modes:
            head = f"{title}{mode.replace('_', ' + ')}"
            figures = self._figures(subjects, mode, head)
            compare(mode, figures)
            for name, row in rows.items():
                row[mode] = figures[name]
            self.report.write()  # after every table, so that nothing is lost
            table = [{"name": name, **row, **row[mode]} for name, row in rows.items()]
            print_table(head, "name", columns, table)

    def _figures(
        self, subjects: Sequence[Subject], mode: str, head: str
    ) -> dict[str, dict[str, Any]]:
        """Returns the figures of every subject, by its name."""
        steps: dict[str, Step] = {}

        def computation(label, compile_step):
            def prepare():
                steps[label] = compile_step()
                return together(steps[label].run)

            return prepare

        variants = {subject.name: subject.steps(mode, self.backend) for subject in subjects}
        timings = time_in_turn(
            {
                _label(name, variant): computation(_label(name, variant), compile_step)
                for name, compile_steps in variants.items()
                for variant, compile_step in compile_steps.items()
            },
            self.config.repeats,
            self.config.min_ms / 1e3,
            lambda text: progress(text and f"{head}: {text}"),
        )
        figures = {}
        for subject in subjects:
            name = subject.name
            found = fastest({variant: timings[_label(name, variant)] for variant in variants[name]})
            if self.config.memory and found["ms"]:
                progress(f"{head}: memory of {name}")
                variant = found["variant"] or ""
                found |= self._memory(subject, mode, variant, steps[_label(name, variant)])
            figures[name] = found
        progress("")
        return figures

    def _memory(self, subject: Subject, mode: str, variant: str, step: "Step") -> dict[str, Any]:
        method = step.backend.memory_method
        if method:
            size = step.backend.temporary_bytes(step)
            return {"temporary_bytes": size, "memory_method": method}
        environment = {"KERAS_BACKEND": self.backend.package}
        arguments = (subject, mode, variant, self.config.xla)
        answer = fresh.call(peak_of_step, *arguments, environment=environment)
        return {
            "temporary_bytes": answer.get("temporary_bytes"),
            "memory_method": memory.METHOD,
            "memory_reason": answer.get("reason"),
        }


def _label(name: str, variant: str) -> str:
    return f"{name} {variant}".rstrip()


def fastest(variants: Mapping[str, Timing | str]) -> dict[str, Any]:
    """Returns the figures of the fastest variant, or why there is none."""
    figures: dict[str, Any] = dict.fromkeys(FIGURES)
    timed = {name: timing for name, timing in variants.items() if isinstance(timing, Timing)}
    if not timed:
        return figures | {"reason": next(iter(variants.values()), "no such mode")}
    name = min(timed, key=lambda name: timed[name].seconds)
    figures["ms"] = 1e3 * timed[name].seconds
    figures["rounds_ms"] = [1e3 * seconds for seconds in timed[name].rounds]
    figures["calls"] = timed[name].calls
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

    memory.check_platform()
    step = subject.steps(mode, current_backend(xla))[variant]()
    step.run(2)
    return {"temporary_bytes": memory.peak_growth(lambda: step.run(1))}
