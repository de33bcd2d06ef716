"""Results that timm published of its networks, the rows of `timm.csv`, as Markdown."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lambda_keras.models.specs import NETWORKS
from zoo.model_card import table

FILE = Path(__file__).with_name("timm.csv")
# Folder of timm's files, at the commit of the snapshot.
SOURCE = (
    "https://github.com/huggingface/pytorch-image-models/tree/"
    "aa4b5850c1543fa488abf260f18390eda46cf85d/results"
)
TEST_SETS = {
    "results-imagenet.csv": "ImageNet",
    "results-imagenet-real.csv": "ImageNet ReaL",
    "results-imagenetv2-matched-frequency.csv": "ImageNetV2",
    "results-sketch.csv": "ImageNet-Sketch",
    "results-imagenet-a.csv": "ImageNet-A",
    "results-imagenet-a-clean.csv": "ImageNet, classes of A",
    "results-imagenet-r.csv": "ImageNet-R",
    "results-imagenet-r-clean.csv": "ImageNet, classes of R",
}
DEVICES = {
    "3090": "RTX 3090",
    "4090": "RTX 4090",
    "5090": "RTX 5090",
    "pro6000maxq": "RTX PRO 6000 Max-Q",
    "i9_10940x": "Core i9-10940X",
    "i7_12700h": "Core i7-12700H",
}
_BENCHMARK = re.compile(
    r"benchmark-(?P<phase>infer|train)-(?P<precision>\w+)-(?P<layout>nchw|nhwc)"
    r"-pt(?P<torch>\d{3})(-cu\d{3})?-(cpu-|rtx)?(?P<device>\w+)(?P<compiled>-dynamo)?[.]csv"
)


class Result(NamedTuple):
    """A number that timm published of one of its networks."""

    network: str
    measured: tuple[str, str]  # quantity, and test set or device
    value: float
    snapshot: str  # date of timm's files


def _rows() -> Iterator[Result]:
    with FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = row["model"].partition(".")[0]  # without the name of the weights
            value = float(row["top1"] or row["samples_per_sec"])
            yield Result(NETWORKS[name].name, _measured(row["file"]), value, row["snapshot"])


def _measured(file: str) -> tuple[str, str]:
    if file in TEST_SETS:
        return "top-1, %", TEST_SETS[file]
    match = _BENCHMARK.fullmatch(file)
    assert match, file
    torch = match["torch"]
    version = f"1.{torch[1:]}" if torch[0] == "1" else ".".join(torch)
    compiled = " compiled" if match["compiled"] else ""
    last = ", channels last" if match["layout"] == "nhwc" else ""
    device = f"{DEVICES[match['device']]}, PyTorch {version}{compiled}, {match['precision']}{last}"
    return "training images/s" if match["phase"] == "train" else "images/s", device


RESULTS = tuple(_rows())


def compare(names: Sequence[str]) -> str:
    """Returns a table with a column for each network; the best of equal blocks are bold."""
    values: dict[tuple[str, str], dict[str, float]] = {}
    for one in RESULTS:
        if one.network in names:
            row = values.setdefault(one.measured, {})
            row[one.network] = round(one.value, 2 if one.value < 100 else None)
    rows = [[*measured, *(_cell(row, name) for name in names)] for measured, row in values.items()]
    return table(["quantity", "test set or device", *names], rows)


def _cell(row: Mapping[str, float], name: str) -> str:
    if name not in row:
        return "-"
    text = f"{row[name]:,.2f}" if row[name] < 100 else f"{row[name]:,.0f}"
    equal = [row[other] for other in row if _blocks(other) == _blocks(name)]
    return f"**{text}**" if len(equal) > 1 and row[name] == max(equal) else text


def _blocks(name: str) -> Any:
    spec: Any = NETWORKS[name].spec
    return spec.blocks, spec.mixer_blocks


def section(network: str) -> str:
    """Returns the part of a network's card with timm's results, or nothing if there are none."""
    dates = sorted({one.snapshot for one in RESULTS if one.network == network})
    if not dates:
        return ""
    size = NETWORKS[network].image_size
    text = (
        f"Published by [timm]({SOURCE}) ({', '.join(dates)}) of its own network in PyTorch, for "
        f"images of {size} x {size} pixels. Not measured again with this project."
    )
    return f"{text}\n\n{compare([network])}"
