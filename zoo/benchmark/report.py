"""Reports of benchmarks: hardware, versions, settings and rows."""

import json
import os
import platform
import re
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic_core import to_jsonable_python

from zoo.backend import cores, schedulable_cores
from zoo.benchmark.settings import FORWARD, FORWARD_BACKWARD, TRAINING, BenchmarkSettings, place
from zoo.errors import install
from zoo.files import atomic_write
from zoo.model_card import table
from zoo.precision import instruction_sets

if TYPE_CHECKING:
    from zoo.benchmark.backends import Backend, Step

Results = dict[str, dict[str, Any]]  # measurements by name of the case


def digits(number: float, factor: float = 1.0) -> str:
    """Formats a number, multiplied by `factor`, with three significant digits."""
    number *= factor
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:#.3g}".rstrip(".")


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str
    key: str  # `forward.ms` is row["forward"]["ms"]
    factor: float | None = None  # None: of numbers that are not integers 1, others as they are

    def value(self, row: Mapping[str, Any]) -> Any:
        """Looks up the value of a row; None where there is none."""
        value: Any = row
        for part in self.key.split("."):
            value = (value or {}).get(part)
        return value

    def cell(self, row: Mapping[str, Any]) -> str:
        """Formats the cell of a row."""
        value = self.value(row)
        if value is None:
            return "-"
        is_plain = self.factor is None and not isinstance(value, float)
        return str(value) if is_plain else digits(value, self.factor or 1.0)


# Titles and factors of measurements; other columns have their keys as titles.
_KNOWN = {
    "images_per_second": ("images/s", 1.0),
    "us_per_position": ("µs/position", 1.0),
    "ms_per_step": ("ms/step", 1.0),
    "parameters": ("M parameters", 1e-6),
    "operations": ("GFLOP", 1e-9),
    "bytes_accessed": ("accessed MB", 1e-6),
}


def column(key: str) -> Column:
    """Returns the column of a key; the key may begin with a mode, as in `forward.ms`."""
    mode, _, rest = key.partition(".")
    if mode in (FORWARD, FORWARD_BACKWARD, TRAINING) and rest:
        inner = column(rest)
        return Column(f"{mode.replace('_', ' + ')}, {inner.title}", key, inner.factor)
    title = key.rpartition(".")[-1].replace("_", " ")
    default = (title.replace(" bytes", " MB"), 1e-6 if title.endswith(" bytes") else None)
    title, factor = _KNOWN.get(key, default)
    return Column(title, key, factor)


def columns(*keys: str) -> tuple[Column, ...]:
    """Returns the columns of keys."""
    return tuple(map(column, keys))


def print_table(
    title: str, name: str, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Prints a Markdown table, `name` first, and the reasons of rows without measurements."""
    rows, columns = list(rows), (Column(name, name), *columns)
    cells = ([one.cell(row) for one in columns] for row in rows)
    print(f"\n{title}\n\n{table([one.title for one in columns], cells)}")
    for row in rows:
        if row.get("reason"):
            print(f"  - {row[name]}: {row['reason']}")


def installed(packages: Iterable[str], command: str) -> dict[str, str]:
    """Looks up the versions of packages; an `ImportError` names the command that installs them."""
    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise ImportError(f"{package} is not installed: {command}") from None
    return versions


def read_report(path: Path) -> dict[str, Any]:
    """Reads the JSON file of a report."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        return {**report, "rows": [dict(row) for row in report["rows"]]}
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(
            f"expected a report of python -m zoo.benchmark. Received: {str(path)!r}"
        ) from None


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
            with atomic_write(self.output) as beside:
                beside.write_text(json.dumps(to_jsonable_python(self.content), indent=1) + "\n")

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
            found = self.results(cases, mode, head)
            progress("")
            compare(found)
            for name, row in rows.items():
                row[mode] = found[name]
            self.write()  # after every table, so that interruptions lose nothing
            table = [{"name": name, **row, **row[mode]} for name, row in rows.items()]
            print_table(head, "name", columns, table)

    def go_on(self, *settings: str) -> None:
        """Adds to the rows in the output of earlier calls, with the same values of settings."""
        if self.output is None or not self.output.is_file():
            return
        before = read_report(self.output)
        self.rows += before["rows"]
        both = [
            {**one["settings"], **one, "hardware": place(one)} for one in (before, self.content)
        ]
        for key in ("benchmark", "backend", "versions", "hardware", *settings):
            then, now = (one.get(key) for one in both)
            if then != now:
                same = f"output: expected a file with the same {key}"
                raise ValueError(f"{same}: {now}. Received: {then}")

    def found(self, mode: str, **known: Any) -> dict[str, Any]:
        """Looks up what was measured of a case; nothing if it was not."""
        of_case = (row for row in self.rows if known.items() <= row.items())
        return next((row[mode] for row in of_case if mode in row), {})

    @abstractmethod
    def results(self, cases: Sequence[Case], mode: str, head: str) -> Results:
        """Measures the steps of cases, by name. `head` begins progress lines."""


def quotient(numerator: float | None, denominator: float | None) -> float | None:
    """Divides two measurements; None if one is missing."""
    return numerator / denominator if numerator and denominator else None


def find_hardware() -> dict[str, Any]:
    """Returns the CPU, its cores, and what decides how TensorFlow uses them."""
    return {
        "cpu": _cpu_model(),
        "cores": cores(),
        "machine": platform.machine(),
        "instruction_sets": sorted(
            name for name in instruction_sets() if name.startswith(("avx", "amx"))
        ),
        "system": platform.system(),
        "tf_enable_onednn_opts": os.environ.get("TF_ENABLE_ONEDNN_OPTS"),
    }


def threads() -> int:
    """Counts the threads that TensorFlow uses on this CPU."""
    return int(os.environ.get("TF_NUM_INTRAOP_THREADS", 0)) or schedulable_cores()


def progress(text: str) -> None:
    """Shows progress in a line that is overwritten, on terminals only, without a thread."""
    if sys.stderr.isatty():
        line = text[1 - shutil.get_terminal_size().columns :]  # must not wrap
        print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*: (.+)$", info.read_text() if info.is_file() else "", re.M)
    return named[1] if named else platform.processor() or platform.machine()
