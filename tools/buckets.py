"""Requests, bytes and speed of training in a bucket: `python -m tools.buckets --help`."""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from tools.bucket_server import BucketServer, Request, serving
from tools.record_files import jpeg, write_tfrecords
from zoo.cli.run import run_command
from zoo.cli.settings import Settings
from zoo.config import DataConfig
from zoo.fields import Count, OutputFile, named
from zoo.files import write_json
from zoo.measurements import find_hardware
from zoo.model_card import table

SHARDS, IMAGES, CLASSES, BATCH = 16, 2048, 4, 64
BUCKETS = itertools.count(1)
DATA = {
    "source": "tfrecord",
    "dir": "gs://bucket/data",
    "classes": CLASSES,
    "batch_size": BATCH,
    "shuffle_buffer": IMAGES // 2,
}
RUN = (
    "--model.name lambda_resnet14 --model.image_size 32 --optimizer.warmup_epochs 0 "
    "--training.epochs 3 --output_dir gs://bucket/run"
)
# Parts of a run, by a substring of their objects' names.
PARTS = {"data": "/data", "checkpoints": "/checkpoints", "TensorBoard": "/logs", "others": ""}


class Config(Settings):
    """Reads and trains from a bucket server on loopback, with and without a delay, in turn.

    Prints images/s of reading alone (decoded, cropped, flipped) and of training, and the requests
    of the last epoch. Every request opens a connection: TCP, TLS and the request take a round trip
    each. Example:

      python -m tools.buckets --output docs/benchmarks/buckets.json
    """

    round_trip_ms: tuple[Annotated[int, Field(ge=0, le=10_000)], ...] = (0, 50)
    """Delays to compare."""
    turns: Count = 3
    """Measurements per delay."""
    output: Annotated[OutputFile, named(".json")] | None = None
    """JSON file of the results."""


def main(arguments: Sequence[str]) -> None:
    """Measures, prints tables, and writes the file."""
    config = Config.from_command_line(arguments, "python -m tools.buckets")
    rates: dict[tuple[str, int], list[float]] = {}
    costs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        _write_shards(Path(folder))
        ways = itertools.product(range(config.turns), config.round_trip_ms, WAYS)
        for _, delay, what in ways:
            with serving(round_trip=delay / 1000) as server:
                server.fill(Path(folder), "bucket/data")
                rates.setdefault((what, delay), []).append(WAYS[what](server))
                if what == "training":
                    costs = costs or cost(server.requests)
                if server.refused:
                    raise ValueError(f"other hosts were asked: {server.refused}")
            print(f"{what}, {delay} ms: {rates[what, delay][-1]:.1f} images/s", flush=True)
    speed = [
        {"what": what, "round_trip_ms": delay, "images_per_s": median(turns), "turns": turns}
        for (what, delay), turns in rates.items()
    ]
    for rows in (speed, costs):
        print(table(rows[0], [map(str, row.values()) for row in rows]), end="\n\n")
    if config.output is not None:
        content = {
            "benchmark": "buckets",
            "command": f"python -m tools.buckets --turns {config.turns} --output {config.output}",
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "hardware": find_hardware(),
            "versions": {name: metadata.version(name) for name in ("keras", "tensorflow")},
            "settings": {"images": IMAGES, "shards": SHARDS, "data": DATA, "run": RUN},
            "rows": [{"kind": "speed"} | row for row in speed]
            + [{"kind": "cost"} | row for row in costs],
        }
        write_json(config.output, content, indent=1)


def _write_shards(folder: Path) -> None:
    """Writes shards of JPEG images of 64 x 64 pixels."""
    labels = np.random.default_rng(0).integers(0, CLASSES, IMAGES).tolist()
    images = [(jpeg(60 * label, (64, 64)), label) for label in labels]
    for number in range(SHARDS):
        write_tfrecords(folder / f"train-{number:02d}", images[number::SHARDS])
    write_tfrecords(folder / "validation-00", images[:64])


def read(server: BucketServer) -> float:
    """Returns images/s of the second and third epoch of reading batches, without training."""
    from zoo.data.load import load_data

    place = f"bucket{next(BUCKETS)}"  # the client caches objects by name
    for key, stored in list(server.objects.items()):
        server.write(key.replace("bucket", place, 1), stored.data)
    os.environ.update(server.environment)
    settings = DATA | {"dir": f"gs://{place}/data"}
    data = load_data(DataConfig.model_validate(settings), 32).train
    steps, ends = data.steps_per_epoch(BATCH), []
    for _ in data.batches(BATCH, CLASSES).take(3 * steps):
        ends.append(time.monotonic())
    return 2 * steps * BATCH / (ends[-1] - ends[steps - 1])


def train(server: BucketServer) -> float:
    """Returns the images/s of the last epoch of a run."""
    options = [f"--data.{name}={value}" for name, value in DATA.items()]
    subprocess.run(
        [sys.executable, "-m", "zoo.train", *options, *RUN.split()],
        env={**os.environ, **server.environment},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    last = server.objects["bucket/run/epochs.jsonl"].data.splitlines()[-1]
    return json.loads(last)["images_per_second"]


WAYS = {"reading": read, "training": train}


def cost(requests: Sequence[Request]) -> list[dict[str, Any]]:
    """Counts requests and bytes of the last epoch, by part of the run."""
    epoch_ends = [
        number
        for number, request in enumerate(requests)
        if (request.operation, request.place) == ("upload", "bucket/run/epochs.jsonl")
    ]
    left = list(requests[epoch_ends[-2] + 1 : epoch_ends[-1] + 1])
    rows = []
    for part, within in PARTS.items():
        in_part = [request for request in left if within in request.place]
        left = [request for request in left if within not in request.place]
        counts = Counter(request.operation for request in in_part)
        reads = Counter(request.place for request in in_part if request.operation == "read")
        rows.append(
            {
                "part": part,
                "requests": len(in_part),
                "lists": counts["list"],
                "stats": counts["stat"],
                "uploads": counts["upload"],
                "reads": counts["read"],
                "objects_read": len(reads),
                "read_bytes": sum(
                    request.sent for request in in_part if request.operation == "read"
                ),
                "written_bytes": sum(
                    request.received for request in in_part if request.operation == "upload"
                ),
            }
        )
    return rows


if __name__ == "__main__":
    run_command(main)
