"""Published results: accuracies and times of the paper's tables."""

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lambda_keras.models.specs import NETWORKS


@dataclass(frozen=True)
class Result:
    """One published accuracy: a row of `results.csv`, with timm's column names where timm has them.

    The file has counts only for arguments or sizes that differ from the registry's, parameters in
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
    network = NETWORKS[row["model"]]
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


def _read() -> Iterator[Result]:
    with Path(__file__).with_name("results.csv").open(encoding="utf-8", newline="") as file:
        yield from map(_result, csv.DictReader(file))


RESULTS = tuple(_read())
