"""Reports of benchmarks: settings and rows."""

import json
import os
import platform
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic_core import to_jsonable_python

from zoo.backend import schedulable_cores
from zoo.benchmark.settings import BenchmarkSettings
from zoo.errors import install
from zoo.files import atomic_write
from zoo.measurements import Column, find_hardware, installed, place, print_table, read_report

if TYPE_CHECKING:
    from zoo.benchmark.backends import Backend, Step

Results = dict[str, dict[str, Any]]  # measurements by name of the case


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


_TEXT = Path(__file__).with_name("conventions.yaml").read_text(encoding="utf-8")
_CONVENTIONS = yaml.safe_load(_TEXT)


class Report:
    """Results of a benchmark. Create it after the backend is chosen: it imports Keras.

    It lists `packages` in addition to Keras and NumPy, and `hardware` in addition to the CPU.
    """

    def __init__(
        self,
        config: BenchmarkSettings,
        packages: Iterable[str],
        backend: str = "tensorflow",
        **hardware: Any,
    ):
        import lambda_keras

        name = type(config).__module__.rpartition(".")[2]
        versions = installed(("keras", "numpy", *packages), install(config.extra))
        versions = {"lambda_keras": lambda_keras.__version__, **versions}
        self.output = config.output
        self.rows: list[dict[str, Any]] = []
        self.content: dict[str, Any] = {
            "benchmark": name,
            "command": config.command,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "hardware": {**find_hardware(), **hardware},
            "versions": {"python": platform.python_version(), **versions},
            "settings": config.model_dump(mode="json"),
            "conventions": _CONVENTIONS[name],
            "backend": backend,
            "rows": self.rows,
        }
        print(place(self.content))
        print(", ".join(f"{name} {version}" for name, version in self.content["versions"].items()))

    def write(self) -> None:
        """Writes the JSON file atomically, if there is an output."""
        if self.output is not None:
            with atomic_write(self.output) as temporary:
                temporary.write_text(json.dumps(to_jsonable_python(self.content), indent=1) + "\n")

    def finish(self) -> None:
        """Prints the name of the file."""
        if self.output is not None:
            print(f"\nwrote {self.output}")


class CaseReport(Report, ABC):
    """A report whose rows are cases, measured in several modes."""

    def measure(
        self,
        cases: Sequence[Case],
        modes: Sequence[str],
        columns: Sequence[Column],
        compare: Callable[[Results], None],
        title: str = "",
    ) -> None:
        """Measures cases and prints a table for each mode; each case has a row of the report.

        `compare` adds comparisons to the results of a mode; `title` begins the headings.
        """
        rows: dict[str, dict[str, Any]] = {}
        for case in cases:
            progress(f"building {case.name}")
            identity = case.identity
            known = (row for row in self.rows if identity.items() <= row.items())
            rows[case.name] = next(known, identity)
            if rows[case.name] is identity:
                self.rows.append(identity)
        for mode in modes:
            head = f"{title}{mode.replace('_', ' + ')}"
            results = self.results(cases, mode, head)
            progress("")
            compare(results)
            for name, row in rows.items():
                row[mode] = results[name]
            self.write()  # after every table, so that interruptions lose nothing
            table = [{"name": name, **row, **row[mode]} for name, row in rows.items()]
            print_table(head, "name", columns, table)

    def go_on(self, *settings: str) -> None:
        """Loads the rows of earlier calls from the output; `settings` must have the same values."""
        if self.output is None or not self.output.is_file():
            return
        before = read_report(self.output)
        self.rows += before["rows"]
        reports = [
            {**report["settings"], **report, "hardware": place(report)}
            for report in (before, self.content)
        ]
        for key in ("benchmark", "backend", "versions", "hardware", *settings):
            then, now = (report.get(key) for report in reports)
            if then != now:
                same = f"output: expected a file with the same {key}"
                raise ValueError(f"{same}: {now}. Received: {then}")

    def look_up(self, mode: str, **known: Any) -> dict[str, Any]:
        """Looks up the measurements of a case in a mode; empty if there are none."""
        rows = (row for row in self.rows if known.items() <= row.items())
        return next((row[mode] for row in rows if mode in row), {})

    @abstractmethod
    def results(self, cases: Sequence[Case], mode: str, head: str) -> Results:
        """Measures the steps of cases, by name. `head` begins progress lines."""


def quotient(numerator: float | None, denominator: float | None) -> float | None:
    """Divides two measurements; None if one is missing."""
    return numerator / denominator if numerator and denominator else None


def threads() -> int:
    """Counts the threads that TensorFlow uses on this CPU."""
    return int(os.environ.get("TF_NUM_INTRAOP_THREADS", 0)) or schedulable_cores()


def progress(text: str) -> None:
    """Shows progress in a line that is overwritten, on terminals only, without a thread."""
    if sys.stderr.isatty():
        line = text[1 - shutil.get_terminal_size().columns :]  # must not wrap
        print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)
