"""Runs in a bucket: killed, under faults, on two hosts."""

import re
import signal
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load
from support.buckets import serving
from support.loopback import cluster, free_port
from support.pseudo_labels import write_selection
from support.record_files import jpeg, write_tfds, write_tfrecords
from support.starter import Starter, kill_at, names
from support.zoo_weights import h5_arrays

FIXTURES = Path(__file__).parents[2] / "fixtures"
NAMES = [f"class{number}" for number in range(4)]
TFDS = (
    "train --data.source tfds --data.name tiny --data.dir gs://bucket/tfds "
    "--data.train_split train --data.test_split test --data.batch_size 8 --data.shuffle_buffer 16 "
    "--model.image_size 16 --training.epochs 2 --training.ema 0.9 --training.checkpoint_steps 5 "
    "--optimizer.warmup_epochs 0 --data.cache_gb 0"  # kills are counted in requests of training
)
RECORDS = (
    "train --data.source tfrecord --data.dir gs://bucket/records --data.classes 4 "
    "--data.pseudo.dir gs://bucket/selected --data.pseudo.ratio 1 --data.batch_size 8 "
    "--model.image_size 16 --training.epochs 1 --training.checkpoint_steps 5 "
    "--optimizer.warmup_epochs 0"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    import tensorflow_datasets as tfds

    folder = tmp_path_factory.mktemp("bucket")
    examples = [(jpeg(number * 37 % 250), number % 4) for number in range(96)]
    label = tfds.features.ClassLabel(names=NAMES)
    splits = {"train": examples, "test": examples[5:29]}
    write_tfds(folder / "tfds", "tiny", splits, label=label, per_shard=6)
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
    with closing(Starter(server, tmp_path_factory.mktemp("starter"))) as starter:
        yield starter


@pytest.fixture(autouse=True)
def no_faults(server):
    server.faults.clear()


def assert_same(server, one: str, other: str, tmp_path: Path) -> None:
    """Compares weights to the bit, and the names of all files."""
    assert names(server, one) == names(server, other)
    path, weights = tmp_path / "weights.h5", []
    for run in (one, other):
        path.write_bytes(server.objects[f"bucket/{run}/model.weights.h5"].data)
        weights.append(h5_arrays(path))
    assert len(weights[0]) > 50
    np.testing.assert_equal(*weights)


def saved(server, run: str) -> list[int]:
    """Steps of the checkpoints, which are all whole, in order."""
    steps = []
    for name in names(server, run):
        if found := re.fullmatch(r"checkpoints/step-(\d+)\.safetensors", name):
            assert load(server.objects[f"bucket/{run}/{name}"].data)
            steps.append(int(found[1]))
    return sorted(steps)


# Requests in whose middle a run is killed, how many of them come before in its process, and the
# fault that hides the newest checkpoint from it.
KILLS = [
    ("upload bucket/killed/config.yaml", 0, ""),
    ("upload bucket/killed/checkpoints/step-", 0, ""),
    ("read bucket/tfds/", 18, ""),
    ("start bucket/killed/checkpoints/step-", 1, ""),  # before an upload
    ("list bucket/killed/checkpoints", 1, ""),  # between two steps
    ("upload bucket/killed/checkpoints/step-", 1, ""),
    ("read bucket/tfds/", 26, "damage"),  # a start reads ahead: up to 24
    ("upload bucket/killed/raw.weights.h5", 0, "stale"),
    ("upload bucket/killed/metrics.json", 0, ""),
    ("", 0, ""),
]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_run_gives_the_same_weights(server, starter, tmp_path):
    code, output = starter.run(TFDS, "gs://bucket/whole")
    assert code == 0, output
    for place, skip, hidden in KILLS:
        server.faults.clear()
        if place:
            kill_at(server, starter, place, skip=skip)
        steps = saved(server, "killed")
        if hidden:
            newest = f"bucket/killed/checkpoints/step-{steps.pop():09d}.safetensors"
            other = newest if hidden == "damage" else "bucket/killed/checkpoints/$"
            fault = server.fail(hidden, f"(read|list) {other}")
            fault.before = {key: found for key, found in fault.before.items() if key != newest}
            server.faults.reverse()  # the first one that matches happens
        code, output = starter.run(TFDS, "gs://bucket/killed")
        assert code == (-signal.SIGKILL if place else 0), output
        assert ("resuming after step" in output) == bool(steps)
        assert not steps or f"resuming after step {steps[-1]} of 24" in output
        assert ("wrong checksum" in output) == (hidden == "damage")
        assert ("metrics.json" in names(server, "killed")) == (not place)
    assert_same(server, "whole", "killed", tmp_path)
    code, output = starter.run(TFDS, "gs://bucket/killed")
    assert code == 2
    assert output.startswith("error: output_dir: gs://bucket/killed holds a finished run")


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
    server.fail("slow", "read bucket/records/train-3", seconds=1)
    code, output = starter.run(RECORDS, "gs://bucket/faults")
    assert code == 0, output
    # Each request failed, and came again.
    assert [fault.pattern for fault in faults if fault.met < 2] == []
    assert_same(server, "records_run", "faults", tmp_path)


# Requests without permission, and the end of the one line.
DENIED = {
    "list bucket/records/": "gs://bucket/records",
    "stat bucket/records/train-1": "reading metadata of gs://bucket/records/train-1",
    "read bucket/records/train-2": "gs://bucket/records/train-2",
    "read bucket/selected/select.json": "gs://bucket/selected/select.json",
    "read bucket/selected/train-00001": "gs://bucket/selected/train-00001",
    "list bucket/denied/": "gs://bucket/denied",
    "start bucket/denied/config.yaml": "gs://bucket/denied/config.yaml",
    "start bucket/denied/logs": "gs://bucket/denied/logs",
    "start bucket/denied/checkpoints/step-000000005": "step-000000005.safetensors",
    "start bucket/denied/metrics.json": "gs://bucket/denied/metrics.json",
}


@pytest.mark.slow
def test_no_permission_ends_with_a_line_that_names_the_object(server, starter):
    wrong = {}
    for place, named in DENIED.items():
        server.faults.clear()
        fault = server.fail(403, place, times=1000)
        code, output = starter.run(RECORDS, "gs://bucket/denied")
        _, error, line = output.rpartition("error: ")  # after the bar, where training began
        if (code, bool(error), line.count("\n")) != (2, True, 1) or named not in line:
            wrong[place] = output[-2000:]
        assert fault.met
        assert "metrics.json" not in names(server, "denied")
    assert not wrong


@pytest.mark.slow
def test_damaged_records_are_named(server, starter):
    server.fail("damage", "read bucket/records/train-2", times=1000)
    code, output = starter.run(RECORDS, "gs://bucket/damaged")
    assert code == 2
    assert "gs://bucket/records/train-2 is damaged" in output.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hosts_share_a_run_folder(server, tmp_path):
    """One is lost in the middle of a checkpoint; the weights are those of an undisturbed run."""
    workers = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    hosts = []
    for index in range(2):
        (tmp_path / str(index)).mkdir()
        hosts.append(Starter(server, tmp_path / str(index), **cluster(workers, index)))

    def train(run: str) -> list[tuple[int, str]]:
        for host in hosts:
            host.begin(f"{RECORDS} --strategy multi_worker", f"gs://bucket/{run}")
        return [host.end() for host in hosts]

    try:
        ends = train("two_hosts")
        assert [code for code, _ in ends] == [0, 0], ends
        written = [name for name in names(server, "two_hosts") if not name.endswith("/")]
        uploads = [one.place for one in server.requests if one.operation == "upload"]
        assert len(written) > 5
        assert all(uploads.count(f"bucket/two_hosts/{name}") == 1 for name in written)

        server.fail("slow", "upload bucket/lost/checkpoints/step-000000005", then=hosts[1].kill)
        (code, output), (killed, _) = train("lost")
        assert (code, killed) == (1, -signal.SIGKILL), output
        assert "another host of this run was lost" in output
        ends = train("lost")
        assert [code for code, _ in ends] == [0, 0], ends
        assert "resuming after step 5 of 12" in ends[0][1]
    finally:
        for host in hosts:
            host.close()
    assert_same(server, "two_hosts", "lost", tmp_path)


@pytest.mark.slow
def test_two_hosts_label_into_one_folder(server, starter, tmp_path):
    """The labels are those of a single process, whichever host writes a file last."""
    server.fill(FIXTURES / "classifier_run", "bucket/of_digits")
    label = "pseudo_label label --teacher gs://bucket/of_digits --range_size 10 "
    label += "--input gs://bucket/records/train-* --output "
    code, output = starter.run(f"{label}{tmp_path}/labels")
    assert code == 0, output
    with closing(Starter(server, tmp_path)) as other:
        for one in (starter, other):
            one.begin(f"{label}gs://bucket/labels")
        for one in (starter, other):
            code, output = one.end()
            assert code == 0, output
    files = [path for path in (tmp_path / "labels").iterdir() if path.name.startswith("labels-")]
    assert len(files) > 10
    for path in files:
        assert server.objects[f"bucket/labels/{path.name}"].data == path.read_bytes()
