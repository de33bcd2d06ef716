"""The accuracies that the LambdaNetworks paper publishes, of networks of the zoo."""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.registry import TABLE

IMAGENET, PSEUDO_LABELS = "ImageNet", "ImageNet + pseudo-labels"


@dataclass(frozen=True)
class Result:
    """One published accuracy: a row of `results.csv`, whose columns are timm's where it has them.

    Attributes:
        network: Name of the network in the registry.
        arguments: Arguments of the constructor in addition to the registry's.
        image_size: Height and width of the images in pixels.
        top1: ImageNet top-1 accuracy in percent.
        parameters: Trainable parameters, counted; the column is in millions. The file states them
            for other arguments than the registry's only.
        gflops: Floating-point operations for one image in 10^9, counted by the paper's conventions.
            The file states them for other arguments or sizes than the registry's only.
        seconds: Time of a training step of 1024 images on 8 TPUv3 cores (Table 19); the column is
            in milliseconds.
        images_per_second: Inference on 8 TPUv3 cores (Tables 4, 13 and 14).
        data: Training data.
        table: Place in the paper (arXiv 2102.08602).
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
