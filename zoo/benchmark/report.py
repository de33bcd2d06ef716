"""Reports of benchmarks: hardware, versions, settings and rows."""

import json
import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from importlib import metadata
from operator import getitem
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.table import Table

from zoo.benchmark.settings import BenchmarkSettings
from zoo.errors import install
from zoo.files import atomic_write


def digits(number: float, factor: float = 1.0) -> str:
    """Returns three significant digits."""
    number *= factor
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:#.3g}".rstrip(".")


@dataclass(frozen=True)
class Column:
    """One column of a table: its head, where its figures are in a row, how they are written."""

    title: str
    key: str  # `ratios.bytes` is row["ratios"]["bytes"]
    form: Callable[[Any], str] = digits

    def cell(self, row: Mapping[str, Any]) -> str:
        """Formats the cell of a row."""
        value: Any = reduce(getitem, self.key.split("."), row)
        return "-" if value is None else self.form(value)


def print_table(
    title: str, name: str, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Prints a table, and below it what could not be measured, and why.

    `name` is the key of the first column. Rows have a `reason` or `memory_reason` where a figure
    is missing.
    """
    table, reasons = Table(name), []
    for column in columns:
        table.add_column(column.title, justify="right")
    for row in rows:
        table.add_row(row[name], *(column.cell(row) for column in columns))
        why = (row.get("reason"), row.get("memory_reason"))
        reasons += [f"  - {row[name]}: {reason}" for reason in why if reason]
    # As wide as it is: a line too long for a terminal is better than a cut figure.
    Console(width=200, highlight=False, markup=False).print(f"\n{title}", table, sep="\n")
    print(*reasons, sep="\n", end="\n" if reasons else "")


def installed(packages: Iterable[str], command: str) -> dict[str, str]:
    """Returns the versions of packages.

    Raises:
        ImportError: If one is not there; with the command that installs it.
    """
    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise ImportError(f"{package} is not installed: {command}") from None
    return versions


class Report:
    """The results of one benchmark. Create it when the backend is chosen: it imports Keras.

    Args:
        config: Settings of the benchmark.
        arguments: Its command line arguments.
        packages: Distributions whose versions matter, besides Keras and NumPy.
        conventions: What figures and other words of the report mean.
        hardware: What matters besides the CPU.
    """

    def __init__(
        self,
        config: BenchmarkSettings,
        arguments: Sequence[str],
        packages: Iterable[str],
        conventions: Mapping[str, str],
        hardware: Mapping[str, Any] | None = None,
    ):
        import lambda_keras

        program = config.model_config.get("cli_prog_name") or ""
        versions = installed(("keras", "numpy", *packages), install(config.extra))
        self.output = config.output
        self.draw: Callable[[dict[str, Any], Path], None] | None = None
        self.rows: list[dict[str, Any]] = []
        self.content: dict[str, Any] = {
            "benchmark": program.split()[-1],
            "command": f"{program} {shlex.join(arguments)}".rstrip(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "hardware": {
                "cpu": _cpu_model(),
                "cores": cores(),
                "machine": platform.machine(),
                "system": platform.system(),
                "tf_enable_onednn_opts": os.environ.get("TF_ENABLE_ONEDNN_OPTS"),
                **(hardware or {}),
            },
            "versions": {
                "python": platform.python_version(),
                "lambda_keras": lambda_keras.__version__,
                **versions,
            },
            "settings": config.model_dump(mode="json"),
            "conventions": conventions,
            "rows": self.rows,
        }
        print(place(self.content))
        print(", ".join(f"{name} {version}" for name, version in self.content["versions"].items()))

    def table(
        self, title: str, name: str, columns: Sequence[Column], rows: Iterable[dict[str, Any]]
    ) -> None:
        """Takes the rows of a table, writes all so far, so that nothing is lost, and prints it."""
        self.rows += (rows := list(rows))
        self.write()
        print_table(title, name, columns, rows)

    def write(self) -> None:
        """Writes the JSON file, whole or not at all; nothing if none is wanted."""
        if self.output is not None:
            with atomic_write(self.output) as beside:
                beside.write_text(json.dumps(to_jsonable_python(self.content), indent=1) + "\n")

    def finish(self) -> None:
        """Prints the names of the files that were written."""
        if self.output is None:
            return
        written = [self.output]
        if self.draw is not None:
            written.append(self.output.with_suffix(".png"))
            self.draw(self.content, written[-1])
        print("\nwrote", " and ".join(map(str, written)))


def cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


def threads() -> int:
    """Returns how many threads TensorFlow computes with on this CPU."""
    return int(os.environ.get("TF_NUM_INTRAOP_THREADS", 0)) or cores()


def place(report: Mapping[str, Any]) -> str:
    """Describes the hardware of a report in a few words."""
    hardware = report["hardware"]
    return hardware.get("accelerator") or f"{hardware['cpu']}, {hardware['cores']} CPU cores"


def progress(text: str) -> None:
    """Shows what is going on in one line that is overwritten; nothing where nobody watches.

    No spinner: its thread would disturb what is timed.
    """
    if sys.stderr.isatty():
        line = text[1 - shutil.get_terminal_size().columns :]  # of two lines one would stay
        print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*: (.+)$", info.read_text() if info.is_file() else "", re.M)
    return named[1] if named else platform.processor() or platform.machine()
