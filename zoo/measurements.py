"""Files and tables of measurements: columns, hardware, versions."""

import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from zoo.backend import cores
from zoo.errors import refusal
from zoo.model_card import table
from zoo.precision import instruction_sets

FORWARD, FORWARD_BACKWARD, TRAINING = "forward", "forward_backward", "training"


def digits(number: float, factor: float = 1.0) -> str:
    """Formats a number, multiplied by `factor`, with three significant digits."""
    number *= factor
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:#.3g}".rstrip(".")


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str
    key: str  # `forward.ms` is row["forward"]["ms"]
    factor: float | None = None  # None: 1 for floats; other values are shown as they are

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
    cells = ([column.cell(row) for column in columns] for row in rows)
    print(f"\n{title}\n\n{table([column.title for column in columns], cells)}")
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
        raise refusal("expected a report of python -m zoo.benchmark", repr(str(path))) from None


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


def place(report: Mapping[str, Any]) -> str:
    """Describes the hardware of a report in a few words."""
    known = report["hardware"]
    return known.get("accelerator") or f"{known['cpu']}, {known['cores']} CPU cores"


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*: (.+)$", info.read_text() if info.is_file() else "", re.M)
    return named[1] if named else platform.processor() or platform.machine()
