"""Rows of `CHOICES`, and errors of `auto`, from a file of `zoo.benchmark accelerator`."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_settings import CliPositionalArg

from zoo.cli.run import run_command
from zoo.cli.settings import Settings
from zoo.measurements import FORWARD, FORWARD_BACKWARD, TRAINING, columns, print_table, read_report

TOLERATED = 1.05  # time of `auto`, relative to the fastest implementation
COMPARED = ("positions", "scope", "batch", "mode", "best", "auto_of_best")


class Config(Settings):
    """Prints how far auto is from the fastest implementation, and the rows that correct its table.

    Writes a CSV file of the networks in timm's columns next to the JSON file.
    """

    file: CliPositionalArg[Path]
    """JSON file (--output of accelerator)."""


def main(arguments: Sequence[str]) -> None:
    """Reads a report, prints and writes."""
    path = Config.from_command_line(arguments, "python -m tools.choices").file
    rows = read_report(path)["rows"]
    if compared := choices(rows):
        shown = columns(*COMPARED[1:])
        print_table("auto beside the fastest implementation", "positions", shown, compared)
        if corrected := list(corrections(compared)):
            print("\nRows to put first in CHOICES (lambda_keras/layers/position_lambdas):")
            print(*(f"    {row}," for row in corrected), sep="\n")
    if networks := timm_rows(rows):
        with path.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, dict.fromkeys(key for row in networks for key in row))
            writer.writeheader()
            writer.writerows(networks)
        print(f"\nwrote {path.with_suffix('.csv')}")


def choices(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Compares `auto` with the fastest implementation of each size and mode."""
    cases: dict[tuple, dict[str, float]] = {}
    for row in rows:
        for mode in (FORWARD, FORWARD_BACKWARD):
            if "implementation" in row and row.get(mode, {}).get("ms"):
                key = (row["size"] ** row["axes"], row["scope"], row["batch"], mode)
                cases.setdefault(key, {})[row["implementation"]] = row[mode]["ms"]
    compared = []
    for case, times in cases.items():
        auto = times.pop("auto", None)
        if auto and times:
            best = min(times, key=times.__getitem__)
            values = (*case, best, auto / times[best])
            compared.append(dict(zip(COMPARED, values, strict=True)))
    return compared


def corrections(compared: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields rows for `CHOICES` of `position_lambdas` where `auto` is not the fastest."""
    for row in compared:
        if row["auto_of_best"] > TOLERATED:
            ranges = {key: (row[key], row[key]) for key in ("positions", "scope", "batch")}
            yield row["best"], {**ranges, "training": row["mode"] == FORWARD_BACKWARD}


def timm_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Lists networks in the columns of timm's benchmark results."""
    entries: dict[str, dict[str, Any]] = {}
    for row in rows:
        for mode, kind in ((FORWARD, "infer"), (TRAINING, "train")):
            if "entry" in row and (measured := row.get(mode, {})).get("ms"):
                name = re.sub(r"@\d+(x\d+)?", "", row["entry"])
                entry = entries.setdefault(row["entry"], {"model": name})
                entry[f"{kind}_samples_per_sec"] = round(measured["images_per_second"], 2)
                entry[f"{kind}_step_time"] = round(measured["ms"], 3)
                entry[f"{kind}_batch_size"] = row["batch"]
                entry[f"{kind}_img_size"] = row["image_size"]
                entry["param_count"] = round(row["parameters"] / 1e6, 2)
    return list(entries.values())


if __name__ == "__main__":
    run_command(main)
