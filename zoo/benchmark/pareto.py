"""Draws Figure 4, accuracy over time: `python -m zoo.benchmark pareto --help`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from zoo.cli.settings import LocalPath, OutputFile, Settings, named


class Config(Settings, cli_prog_name="python -m zoo.benchmark pareto"):
    """Draws published accuracy over published and over measured time, as Figure 4 does.

    On the left, training time on 8 TPUv3 cores, as the paper states it (Table 19). On the right,
    the training speed that python -m zoo.benchmark models measured. Nothing was trained here: all
    accuracies are published ones. Example:

      python -m zoo.benchmark pareto --measured models.json --output pareto.png
    """

    measured: LocalPath = Field(description="Report of python -m zoo.benchmark models (.json).")
    output: Annotated[OutputFile, named(".png")] = Field(description="Picture to write (.png).")


def run(config: Config, arguments: Sequence[str]) -> None:
    """Reads, draws and writes.

    Raises:
        ValueError: If the file is no such report.
    """
    report = _read(config.measured)
    from zoo.benchmark.plots import plot_pareto

    plot_pareto(report, config.output)
    print(f"wrote {config.output}")


def _read(path: Path) -> dict:
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if report["benchmark"] == "models" and "training" in report["settings"]["modes"]:
            return report
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise ValueError(
        "measured: expected a report of python -m zoo.benchmark models with training steps. "
        f"Received: {str(path)!r}"
    )
