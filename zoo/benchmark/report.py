"""What every benchmark writes down: hardware, versions, settings and rows."""

import json
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from zoo.cli.settings import Settings
from zoo.files import atomic_write


def describe(
    command: str, arguments: Sequence[str], config: Settings, packages: Sequence[str]
) -> dict[str, Any]:
    """Returns the head of a report: when, how, on what, with what.

    Call it when the backend is chosen: it imports Keras.

    Args:
        command: Name of the benchmark.
        arguments: Its command line arguments.
        config: Its settings.
        packages: Distributions whose versions matter, besides Keras and NumPy.
    """
    import lambda_keras

    return {
        "benchmark": command,
        "command": shlex.join(["python", "-m", "zoo.benchmark", command, *arguments]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": {
            "cpu": _cpu_model(),
            "cores": cores(),
            "machine": platform.machine(),
            "system": platform.system(),
        },
        "versions": {
            "python": platform.python_version(),
            "lambda_keras": lambda_keras.__version__,
            **{name: metadata.version(name) for name in ("keras", "numpy", *packages)},
        },
        "settings": config.model_dump(mode="json"),
    }


def cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def place(report: dict[str, Any]) -> str:
    """Returns what a report was measured on, in a few words."""
    hardware = report["hardware"]
    return hardware.get("accelerator") or f"{hardware['cpu']}, {hardware['cores']} CPU cores"


def print_head(report: dict[str, Any]) -> None:
    """Prints what a report was measured on and with."""
    print(place(report))
    print(", ".join(f"{name} {version}" for name, version in report["versions"].items()))


def write(report: dict[str, Any], path: Path) -> None:
    """Writes a report as JSON, whole or not at all."""
    with atomic_write(path) as beside:
        beside.write_text(json.dumps(to_jsonable_python(report), indent=1) + "\n")


def progress(text: str) -> None:
    """Shows what is going on in one line that is overwritten; nothing where nobody watches."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def table_line(cells: Sequence[str], first: int = 18, width: int = 9) -> str:
    """Returns a line of a table: the first cell on the left, the others aligned on the right."""
    return f"{cells[0]:<{first}}" + "".join(f"{cell:>{width}}" for cell in cells[1:])


def digits(number: float | None, factor: float = 1.0) -> str:
    """Returns three significant digits, or "-" for None."""
    if number is None:
        return "-"
    number *= factor
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:#.3g}".rstrip(".")


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
