"""The models of the zoo, or the paper's published accuracies, as a table: `python -m zoo.list`."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from pydantic_settings import CliPositionalArg

from zoo.cli.run import BACKENDS, run_command
from zoo.cli.settings import Settings, quoted
from zoo.model_card import table
from zoo.registry import TABLE, list_models

if TYPE_CHECKING:
    from lambda_keras.models.specs import Network

HEAD = ("model", "parameters", "GFLOPs", "size", "top-1", "published in")
OF_NETWORKS = (*HEAD, "recipe", "weights")
OF_RESULTS = (*HEAD, "arguments", "trained on", "s/step", "images/s")


@dataclass(frozen=True)
class Result:
    """One published accuracy: a row of `results.csv`, whose columns are timm's where it has them.

    The file states counts for other arguments or sizes than the registry's only, parameters in
    millions. Times are on 8 TPUv3 cores: seconds of a training step of 1024 images (Table 19;
    milliseconds in the file), and images per second of inference (Tables 4, 13 and 14).
    """

    network: str
    arguments: Mapping[str, Any]
    image_size: int
    top1: float
    parameters: int
    gflops: float
    seconds: float | None
    images_per_second: int | None
    data: str
    table: str


def _result(row: Mapping[str, str]) -> Result:
    network = TABLE[row["model"]]
    return Result(
        network.name,
        json.loads(row["arguments"] or "{}"),
        int(row["img_size"]),
        float(row["top1"]),
        round(1e6 * float(row["param_count"])) if row["param_count"] else network.parameters,
        float(row["gflops"] or network.gflops),
        float(row["train_step_time"]) / 1e3 if row["train_step_time"] else None,
        int(row["infer_samples_per_sec"]) if row["infer_samples_per_sec"] else None,
        row["data"],
        row["table"],
    )


with Path(__file__).with_name("results.csv").open(encoding="utf-8", newline="") as _file:
    RESULTS = tuple(map(_result, csv.DictReader(_file)))


class ListConfig(Settings, cli_prog_name="python -m zoo.list"):
    """Lists the models: parameters, operations, published accuracy, weights.

    Operations are those of one image of the size in the table, by the paper's conventions (see
    python -m zoo.flops). Top-1 is the published accuracy on ImageNet; nothing was trained here.
    """

    patterns: CliPositionalArg[list[str]] = Field(default=["*"])
    """Shell patterns of names, e.g. 'lambda_resnet*'."""
    pretrained: bool = False
    """Only models with published weights."""
    results: bool = False
    """Every published accuracy of these models instead of one of each, with the times that stand
    beside it: s/step trains 1024 images, images/s is inference, on 8 TPUv3 cores."""
    format: Literal["table", "json", "markdown"] = "table"
    """Of the list."""


def main(arguments: Sequence[str]) -> None:
    """Prints the list."""
    config = ListConfig.from_command_line(quoted(arguments))
    names = dict.fromkeys(
        name for pattern in config.patterns for name in list_models(pattern, config.pretrained)
    )
    if not names:
        raise ValueError(
            f"expected patterns of names of models. Received: "
            f"{', '.join(map(repr, config.patterns))}, which match none of {len(TABLE)}"
        )
    rows = [TABLE[name] for name in names]
    if config.results:
        rows = [one for one in RESULTS if one.network in names]
    if config.format == "json":
        print(json.dumps(list(map(_fields, rows)), indent=1))
    else:
        write = as_columns if config.format == "table" else table
        print(write(OF_RESULTS if config.results else OF_NETWORKS, list(map(_cells, rows))))


def as_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns aligned columns, those of numbers on the right."""
    columns = []
    for number, column in enumerate(zip(head, *rows, strict=True)):
        width = max(map(len, column))
        is_number = 1 <= number <= 4
        columns.append([cell.rjust(width) if is_number else cell.ljust(width) for cell in column])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def _fields(row: "Network | Result") -> dict[str, Any]:
    fields = dict(vars(row))
    if "weights" in fields:
        del fields["spec"]
        fields["weights"] = {name: vars(one) for name, one in fields["weights"].items()}
    return fields


def _cells(row: "Network | Result") -> list[str]:
    counts = [
        f"{row.parameters:,}",
        f"{row.gflops:.3g}" if row.gflops < 1 else f"{row.gflops:.2f}",
        str(row.image_size),
        "-" if row.top1 is None else f"{round(row.top1, 2):g}",
    ]
    if not isinstance(row, Result):
        weights = " ".join(row.weights) or "none published"
        return [row.name, *counts, row.source or "-", row.recipe or "-", weights]
    arguments = ", ".join(f"{name}={value}" for name, value in row.arguments.items())
    times = ("-" if time is None else f"{time:g}" for time in (row.seconds, row.images_per_second))
    return [row.network, *counts, row.table, arguments or "-", row.data, *times]


if __name__ == "__main__":
    run_command(main, BACKENDS)
