"""Training under faults of a bucket, and two hosts that label into one folder of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.buckets import serving
from support.pseudo_labels import write_selection
from support.record_files import jpeg, write_tfrecords

FIXTURES = Path(__file__).parents[2] / "fixtures"
NAMES = [f"class{number}" for number in range(4)]
RECORDS = (
    "train --data.source tfrecord --data.dir gs://bucket/records --data.classes 4 "
    "--data.pseudo.dir gs://bucket/selected --data.pseudo.ratio 1 --data.batch_size 8 "
    "--model.image_size 16 --training.epochs 1 --training.checkpoint_steps 5 "
    "--optimizer.warmup_epochs 0"
)
# Imports once, and starts a command in a process of its own for each line.
STARTER = """
import json, os, sys
from importlib import import_module
from zoo.cli.run import run_command
from zoo.train import classification
for line in sys.stdin:
    output, verb, *arguments = json.loads(line)
    process = os.fork()
    if not process:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.argv = [f"zoo.{verb}", *arguments]
        run_command(import_module(f"zoo.{verb}.__main__").main)
        sys.exit()
    print(process, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


class Starter:
    """Runs commands, each in a process of its own."""

    def __init__(self, server, folder: Path, **environment: str) -> None:
        self.output = folder / "output.txt"
        every = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **server.environment}
        self.process = subprocess.Popen(
            [sys.executable, "-c", STARTER],
            env={**every, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, command: str, output_dir: str = "") -> None:
        words = [*command.split(), *(["--output_dir", output_dir] if output_dir else [])]
        self.process.stdin.write(json.dumps([str(self.output), *words]) + "\n")
        self.process.stdin.flush()
        self.process.stdout.readline()  # its number

    def run(self, command: str, output_dir: str = "") -> tuple[int, str]:
        """Returns the exit status and the output of a command."""
        self.begin(command, output_dir)
        return self.end()

    def end(self) -> tuple[int, str]:
        return int(self.process.stdout.readline()), self.output.read_text()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bucket")
    examples = [(jpeg(number * 37 % 250), number % 4) for number in range(96)]
    for number in range(4):
        write_tfrecords(folder / f"records/train-{number}", examples[number::4], NAMES)
    write_tfrecords(folder / "records/validation-0", examples[:24], NAMES)
    random = np.random.default_rng(0)
    images = random.integers(0, 255, (32, 24, 24, 3), "uint8")
    write_selection(folder / "selected", images, random.dirichlet(np.ones(4), 32), NAMES)
    with serving() as server:
        server.fill(folder)
        yield server
        assert not server.refused


@pytest.fixture(scope="module")
def starter(server, tmp_path_factory):
    starter = Starter(server, tmp_path_factory.mktemp("starter"))
    yield starter
    starter.close()


@pytest.fixture(autouse=True)
def no_faults(server):
    server.faults.clear()


def names(server, run: str) -> set[str]:
    """Names in a run folder, without those of TensorBoard's files."""
    found = {
        key.removeprefix(f"bucket/{run}/") for key in list(server.objects) if f"/{run}/" in key
    }
    return {name for name in found if name and not name.startswith("logs/")}


def weights(server, run: str, tmp_path: Path) -> dict[str, np.ndarray]:
    path = tmp_path / "weights.h5"
    path.write_bytes(server.objects[f"bucket/{run}/model.weights.h5"].data)
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.update({name: item[()]} if hasattr(item, "shape") else {})
        )
    return found


def assert_same(server, one: str, other: str, tmp_path: Path) -> None:
    """Compares weights to the bit, and the names of all files."""
    assert names(server, one) == names(server, other)
    first, second = weights(server, one, tmp_path), weights(server, other, tmp_path)
    assert first.keys() == second.keys()
    assert len(first) > 50
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], name)


# What a run with them gets over, in turn.
FAULTS = [
    (429, "stat bucket/records/train-1"),
    (503, "list bucket/records/"),
    ("break", "read bucket/records/train-2"),
    (503, "read bucket/selected/train-00001"),
    ("stale", "list bucket/faults/checkpoints/$"),
    ("break", "upload bucket/faults/checkpoints/step-000000005"),
    (503, "upload bucket/faults/checkpoints/step-000000010"),
    (503, "upload bucket/faults/metrics.json"),
    ("break", "upload bucket/faults/logs/train"),
]


@pytest.mark.slow
def test_faults_change_nothing(server, starter, tmp_path):
    code, output = starter.run(RECORDS, "gs://bucket/records_run")
    assert code == 0, output
    faults = [server.fail(kind, place) for kind, place in FAULTS]
    faults += [server.fail("slow", "read bucket/records/train-3", seconds=1)]
    code, output = starter.run(RECORDS, "gs://bucket/faults")
    assert code == 0, output
    assert [fault.pattern for fault in faults if not fault.met] == []
    assert_same(server, "records_run", "faults", tmp_path)


@pytest.mark.slow
def test_damaged_records_are_named(server, starter):
    server.fail("damage", "read bucket/records/train-2", times=1000)
    code, output = starter.run(RECORDS, "gs://bucket/damaged")
    assert code == 2
    assert "gs://bucket/records/train-2 is damaged" in output.splitlines()[-1]


@pytest.mark.slow
def test_two_hosts_label_into_one_folder(server, starter, tmp_path):
    """The labels are those of a single process, whichever host writes a file last."""
    server.fill(FIXTURES / "classifier_run", "bucket/of_digits")
    label = (
        "pseudo_label label --teacher gs://bucket/of_digits --input gs://bucket/records/train-* "
    )
    label += "--range_size 10 --output "
    code, output = starter.run(f"{label}{tmp_path}/labels")
    assert code == 0, output
    other = Starter(server, tmp_path)
    try:
        for one in (starter, other):
            one.begin(f"{label}gs://bucket/labels")
        for one in (starter, other):
            code, output = one.end()
            assert code == 0, output
    finally:
        other.close()
    files = [path for path in (tmp_path / "labels").iterdir() if path.name.startswith("labels-")]
    assert len(files) > 10
    for path in files:
        assert server.objects[f"bucket/labels/{path.name}"].data == path.read_bytes()
