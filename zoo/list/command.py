"""Tables of the models and of published results: `python -m zoo.list`."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field
from pydantic_settings import CliPositionalArg

from lambda_keras.models.specs import NETWORKS, Network
from zoo.cli.settings import Settings
from zoo.errors import require
from zoo.model_card import table
from zoo.registry import list_models
from zoo.results import RESULTS, Result

HEAD = ("model", "parameters", "GFLOPs", "size", "top-1", "published in")
NETWORK_COLUMNS = (*HEAD, "recipe", "weights")
RESULT_COLUMNS = (*HEAD, "arguments", "trained on", "s/step", "images/s")


class ListConfig(Settings):
    """Lists the models: parameters, operations, published accuracy, weights.

    GFLOPs are for one image of the size in the table, by the paper's conventions: two for each
    multiply-accumulate. Top-1 is the accuracy on ImageNet that was published for the network, which
    may differ from the accuracy of its weights. Only the weights fashion_mnist were trained here.
    """

    patterns: CliPositionalArg[list[str]] = Field(default=["*"])
    """Shell patterns of names, e.g. 'lambda_resnet*'."""
    pretrained: bool = False
    """Only models with published weights."""
    results: bool = False
    """Every published accuracy of these models instead of one of each, with its published times:
    s/step trains 1024 images, images/s is inference, both on 8 TPUv3 cores."""
    format: Literal["table", "json", "markdown"] = "table"
    """Format of the list."""


def run(config: ListConfig) -> None:
    """Prints the list."""
    names = dict.fromkeys(
        name for pattern in config.patterns for name in list_models(pattern, config.pretrained)
    )
    received = f"{', '.join(map(repr, config.patterns))}, which match none of {len(NETWORKS)}"
    require(names, "expected patterns of names of models", received)
    rows = [NETWORKS[name] for name in names]
    if config.results:
        rows = [row for row in RESULTS if row.network in names]
    if config.format == "json":
        print(json.dumps(list(map(_fields, rows)), indent=1))
    else:
        write = as_columns if config.format == "table" else table
        print(write(RESULT_COLUMNS if config.results else NETWORK_COLUMNS, list(map(_cells, rows))))


def as_columns(
    head: Sequence[str], rows: Sequence[Sequence[str]], numbers: range = range(1, 5)
) -> str:
    """Returns aligned columns, numbers on the right."""
    columns = []
    for number, column in enumerate(zip(head, *rows, strict=True)):
        width = max(map(len, column))
        adjust = str.rjust if number in numbers else str.ljust
        columns.append([adjust(cell, width) for cell in column])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def _fields(row: Network | Result) -> dict[str, Any]:
    fields = dict(vars(row))
    if "weights" in fields:
        del fields["spec"]
        fields["weights"] = {name: vars(entry) for name, entry in fields["weights"].items()}
    return fields


def _cells(row: Network | Result) -> list[str]:
    counts = [
        f"{row.parameters:,}",
        f"{row.gflops:.3g}" if row.gflops < 1 else f"{row.gflops:.2f}",
        str(row.image_size),
        "-" if row.top1 is None else f"{round(row.top1, 2):g}",
    ]
    if not isinstance(row, Result):
        weights = " ".join(row.weights) or "none published"
        if "/" in row.source:  # a repository that links a checkpoint
            weights = "zoo.convert"
        return [row.name, *counts, row.source or "-", row.recipe or "-", weights]
    arguments = ", ".join(f"{name}={value}" for name, value in row.arguments.items())
    times = ("-" if time is None else f"{time:g}" for time in (row.seconds, row.images_per_second))
    return [row.network, *counts, row.table, arguments or "-", row.data, *times]
