"""Published results: accuracies of the paper's tables, and timm's test sets and speeds."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.model_card import table
from zoo.registry import TABLE

# Folder of timm's files, at the commit of the snapshot.
TIMM = (
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
    r"-pt(?P<torch>\d{3})(-cu(?P<cuda>\d{3}))?-(cpu-|rtx)?(?P<device>\w+)(?P<compiled>-dynamo)?[.]csv"
)


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


@dataclass(frozen=True)
class Accuracy:
    """Accuracy in percent that timm published of its weights: a row of `timm.csv`."""

    network: str
    test_set: str  # "classes of A" and "of R": ImageNet's images of the 200 classes of these sets
    top1: float
    top5: float
    image_size: int
    file: str  # of timm's, in the folder `TIMM`
    snapshot: str  # date of that commit

    @property
    def measured(self) -> tuple[str, str]:
        """Quantity and test set."""
        return "top-1, %", self.test_set

    @property
    def value(self) -> float:
        """The number in tables."""
        return self.top1


@dataclass(frozen=True)
class Speed:
    """Images per second of timm's network on a device, by PyTorch: a row of `timm.csv`."""

    network: str
    training: bool
    device: str
    pytorch: str  # version
    cuda: str | None  # version
    compiled: bool  # by `torch.compile`
    precision: str  # "amp": automatic mixed precision
    layout: str  # "nchw", or "nhwc": channels last
    batch_size: int
    images_per_second: float
    image_size: int
    file: str
    snapshot: str

    @property
    def measured(self) -> tuple[str, str]:
        """Quantity and conditions."""
        compiled = " compiled" * self.compiled
        last = ", channels last" * (self.layout == "nhwc")
        conditions = f"{self.device}, PyTorch {self.pytorch}{compiled}, {self.precision}{last}"
        return "training images/s" if self.training else "images/s", conditions

    @property
    def value(self) -> float:
        """The number in tables."""
        return self.images_per_second


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


def _parse_timm(row: Mapping[str, str]) -> Accuracy | Speed:
    network = TABLE[row["model"].partition(".")[0]].name  # without the name of the weights
    file = row["file"]
    common: Any = {"image_size": int(row["img_size"]), "file": file, "snapshot": row["snapshot"]}
    if file in TEST_SETS:
        return Accuracy(network, TEST_SETS[file], float(row["top1"]), float(row["top5"]), **common)
    match = _BENCHMARK.fullmatch(file)
    assert match, file
    torch, cuda = match["torch"], match["cuda"]
    return Speed(
        network,
        training=match["phase"] == "train",
        device=DEVICES[match["device"]],
        pytorch=f"1.{torch[1:]}" if torch[0] == "1" else ".".join(torch),
        cuda=f"{cuda[:2]}.{cuda[2]}" if cuda else None,
        compiled=match["compiled"] is not None,
        precision=match["precision"],
        layout=match["layout"],
        batch_size=int(row["batch_size"]),
        images_per_second=float(row["samples_per_sec"]),
        **common,
    )


def _rows(name: str) -> Iterator[dict[str, str]]:
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


RESULTS = tuple(map(_result, _rows("results.csv")))
OF_TIMM = tuple(map(_parse_timm, _rows("timm.csv")))


def compare(names: Iterable[str], bold: bool = False) -> tuple[list[str], list[list[str]]]:
    """Returns the head and the rows of a table of timm's results, with a column for each network.

    `bold`: the best values of networks with equal blocks are bold, in Markdown.
    """
    published = {result.network for result in OF_TIMM}
    names = [name for name in names if name in published]
    values: dict[tuple[str, str], dict[str, float]] = {}
    for result in OF_TIMM:
        if result.network in names:
            row = values.setdefault(result.measured, {})
            row[result.network] = round(result.value, 2 if result.value < 100 else None)

    def cell(row: Mapping[str, float], name: str) -> str:
        if name not in row:
            return "-"
        text = f"{row[name]:,.2f}" if row[name] < 100 else f"{row[name]:,.0f}"
        equal = [row[other] for other in row if _blocks(other) == _blocks(name)]
        return f"**{text}**" if bold and len(equal) > 1 and row[name] == max(equal) else text

    rows = [[*measured, *(cell(row, name) for name in names)] for measured, row in values.items()]
    return ["quantity", "test set or device", *names], rows


def card_sections(network: str) -> dict[str, str]:
    """Returns the section of model cards with timm's results of a network, if there are any."""
    dates = sorted({result.snapshot for result in OF_TIMM if result.network == network})
    if not dates:
        return {}
    size = TABLE[network].image_size
    text = (
        f"Published by [timm]({TIMM}) ({', '.join(dates)}) of its own network in PyTorch, for "
        f"images of {size} x {size} pixels. Not measured again with this project."
    )
    return {"Published results": f"{text}\n\n{table(*compare([network]))}"}


def _blocks(name: str) -> Any:
    spec: Any = TABLE[name].spec
    return spec.blocks, spec.mixer_blocks
