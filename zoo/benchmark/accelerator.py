"""Measures layers and networks on the accelerator of this machine."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from zoo.benchmark import layer
from zoo.benchmark.models import COLUMNS as NETWORK_COLUMNS
from zoo.benchmark.models import MODES as NETWORK_MODES
from zoo.benchmark.models import compare as compare_networks
from zoo.benchmark.models import halved, parse
from zoo.benchmark.report import columns, print_table, read_report
from zoo.benchmark.settings import FORWARD, FORWARD_BACKWARD, TRAINING, BackendSettings, MixedDtype
from zoo.benchmark.timing import Bench
from zoo.fields import BatchSize, checked_by
from zoo.files import atomic_write

MODELS = ("lambda_resnet50@160", "resnet_rs50_no_se@160", "keras.EfficientNetB1@240")
MODELS += ("lambda_resnet101@192", "resnet_rs101_no_se@192", "keras.EfficientNetB3@300")
MODELS += ("lambda_resnet152@224", "resnet_rs152_no_se@224", "keras.EfficientNetB5@456")
OF_TIMM = ("lambda_resnet26t@256", "timm.lambda_resnet26t@256:compile=true")
OF_TIMM += ("halonet26t@256", "timm.halonet26t@256:compile=true")
OF_TIMM += ("botnet26t_256@256", "timm.botnet26t_256@256:compile=true")
TOLERATED = 1.05  # time of `auto`, relative to the fastest implementation
COMPARED = ("positions", "scope", "batch", "mode", "best", "auto_of_best")


class Config(layer.LayerSettings, BackendSettings):
    """Measures the layer and whole networks on a GPU or TPU, within minutes, and goes on later.

    Times every implementation of the layer, then training and inference of networks with the
    largest batch that fits. The loop over calls is part of the compiled program on JAX and
    TensorFlow. Results in the JSON file of --output are not measured again; beside it comes a CSV
    file in timm's columns. Prints how far auto is from the fastest implementation,
    and the rows that correct its table. Needs Keras and one of JAX, PyTorch and TensorFlow:

      python -m zoo.benchmark accelerator --backend jax --output h100.json
    """

    looping = True

    dtype: MixedDtype = "mixed_bfloat16"
    """Keras dtype policy."""
    scopes: layer.Scopes = (23, 7)
    sizes: layer.Sizes = (*layer.STAGES, *(f"{size}x8" for size in layer.STAGES))
    batch: layer.Batch = 128
    models: tuple[Annotated[str, checked_by(parse)], ...] | None = None
    """Networks, as for `models`. None: LambdaResNets, ResNet-RS and EfficientNets; on PyTorch with
    timm also timm's compiled networks."""
    largest_batch: BatchSize = 256
    """Batch size of networks, halved until they fit."""
    minutes: float = Field(default=8, ge=0)
    """Time limit. 0: only print what is in the file."""

    @field_validator("xla")
    @classmethod
    def _xla_of_jax(cls, xla: bool) -> bool:
        if xla:
            raise ValueError("expected --backend jax in place of --xla. Received: true")
        return xla


def run(config: Config) -> None:
    """Measures until the time is up, then prints and writes."""
    if config.minutes:
        bench = AcceleratorBench(config)
        for _ in bench.measurements():
            if not bench.time_left():
                print("\nThe time is up: the same command measures the rest.")
                break
        content = bench.content
    elif config.output is None:
        raise ValueError("expected --output FILE with --minutes 0. Received: none")
    else:
        content = read_report(config.output)
    print_choices(content)
    if config.output is not None:
        write_beside(content, config.output)


class AcceleratorBench(Bench):
    """Measurements that are added to those of earlier calls, until the time is up."""

    def __init__(self, config: Config):
        self.start = self.last = time.monotonic()
        self.longest = 0.0  # seconds of one measurement
        super().__init__(config)
        counts = bool(self.backend.memory_method)
        self.settings, self.config = config, config.model_copy(update={"memory": counts})
        self.go_on("dtype", "repeats")

    def time_left(self) -> bool:
        """Whether a measurement as long as the longest so far would end in time."""
        now = time.monotonic()
        self.longest = max(self.longest, now - self.last)
        self.last = now
        return now + self.longest < self.start + 60 * self.settings.minutes

    def measurements(self) -> Iterator[None]:
        """Measures one thing after another; yields after each."""
        for cases in self.settings.cases():
            beside = partial(layer.compare, cases[0])
            for mode in layer.MODES:
                if not all(self.found(mode, **case.identity) for case in cases):
                    self.measure(cases, [mode], layer.COLUMNS, beside, f"{cases[0].title}, ")
                    yield
        models = self.settings.models
        if models is None:
            with_timm = self.backend.package == "torch" and find_spec("timm")
            models = MODELS + OF_TIMM * bool(with_timm)
        for text in models:
            for mode in NETWORK_MODES:
                yield from self._halve(text, mode)

    def _halve(self, text: str, mode: str) -> Iterator[None]:
        """Measures a network with the largest batch that fits."""
        one = [parse(text, self.settings.largest_batch, self.settings.dtype)]
        while one:
            if not self.found(mode, entry=one[0].name, batch=one[0].batch):
                head, beside = f"batch {one[0].batch}, ", partial(compare_networks, one)
                self.measure(one, [mode], NETWORK_COLUMNS, beside, head)
                yield
            one = halved(one, mode, self)


def choices(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Compares `auto` with the fastest implementation of each size and mode."""
    cases: dict[tuple, dict[str, float]] = {}
    for row in rows:
        for mode in layer.MODES:
            if "implementation" in row and row.get(mode, {}).get("ms"):
                key = (row["size"] ** row["axes"], row["scope"], row["batch"], mode)
                cases.setdefault(key, {})[row["implementation"]] = row[mode]["ms"]
    found = []
    for case, times in cases.items():
        auto = times.pop("auto", None)
        if auto and times:
            best = min(times, key=times.__getitem__)
            values = (*case, best, auto / times[best])
            found.append(dict(zip(COMPARED, values, strict=True)))
    return found


def corrections(found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields rows for `CHOICES` of `position_lambdas` where `auto` is not the fastest."""
    for one in found:
        if one["auto_of_best"] > TOLERATED:
            ranges = {key: (one[key], one[key]) for key in ("positions", "scope", "batch")}
            yield one["best"], {**ranges, "training": one["mode"] == FORWARD_BACKWARD}


def print_choices(content: Mapping[str, Any]) -> None:
    """Prints `auto` beside the fastest implementations, and the rows that correct its table."""
    if found := choices(content["rows"]):
        print_table(
            "auto beside the fastest implementation", "positions", columns(*COMPARED[1:]), found
        )
        if rows := list(corrections(found)):
            print("\nRows to put first in CHOICES (lambda_keras/layers/position_lambdas):")
            print(*(f"    {row}," for row in rows), sep="\n")


def timm_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Lists networks in the columns of timm's benchmark results."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        for mode, kind in ((FORWARD, "infer"), (TRAINING, "train")):
            if "entry" in row and (one := row.get(mode, {})).get("ms"):
                name = re.sub(r"@\d+(x\d+)?", "", row["entry"])
                entry = found.setdefault(row["entry"], {"model": name})
                entry[f"{kind}_samples_per_sec"] = round(one["images_per_second"], 2)
                entry[f"{kind}_step_time"] = round(one["ms"], 3)
                entry[f"{kind}_batch_size"] = row["batch"]
                entry[f"{kind}_img_size"] = row["image_size"]
                entry["param_count"] = round(row["parameters"] / 1e6, 2)
    return list(found.values())


def write_beside(content: Mapping[str, Any], output: Path) -> None:
    """Writes the CSV file."""
    rows = timm_rows(content["rows"])
    written = [output]
    if rows:
        written.append(output.with_suffix(".csv"))
        names = dict.fromkeys(name for row in rows for name in row)
        lines = [names, *([str(row.get(name, "")) for name in names] for row in rows)]
        with atomic_write(written[-1]) as beside:
            beside.write_text("".join(f"{','.join(line)}\n" for line in lines), encoding="utf-8")
    print(f"\nwrote {', '.join(map(str, written))}")
