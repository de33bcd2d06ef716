"""A run that is killed, interrupted or loses a host ends like one that never was."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest
from support.loopback import cluster, free_port
from support.zoo_weights import h5_arrays

import lambda_keras  # noqa: F401  registers the layers of the saved models
from zoo.config import DataConfig
from zoo.data.load import load_data
from zoo.inference.classifier import predict

STEPS = 22  # of an epoch
SHORT = "--model.image_size 8 --training.epochs 1 --optimizer.warmup_epochs 0"
PLAIN = f"{SHORT} --training.ema 0.9 --training.checkpoint_steps 8 --data.augment false"
PLAIN += " --training.steps_per_execution 4"
# Which draw random numbers at every step.
PLAIN += " --model.overrides dropout_rate=0.2,stochastic_depth_rate=0.2"

# Imports once, then runs the command in a process of its own for each way in which it may end; a
# single one is run at once.
STARTER = """
import json, os, signal, sys
from pathlib import Path
if (devices := int(os.environ.get("TEST_DEVICES", 1))) > 1:
    from support import loopback
    loopback.virtual_cpus(devices)
from zoo.train import callbacks
from zoo.cli.run import run_command
from zoo.train import __main__ as train
from zoo.train import classification

def killed(name):  # before a file gets its name
    replace = os.replace
    def replace_or_die(source, target):
        if Path(target).name == name:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)
    os.replace = replace_or_die

def half(name):  # killed in the middle of writing a file
    write = Path.write_bytes
    def write_bytes(path, data):
        if path.name == name:
            write(path, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, data)
    Path.write_bytes = write_bytes

def interrupted(moment, number, times=1, step=0):
    begin = getattr(callbacks.SaveProgress, moment)
    def interrupt(self, batch, logs=None):
        for _ in range(times if self.model.steps_done >= step else 0):
            os.kill(os.getpid(), number)
        begin(self, batch, logs)
    setattr(callbacks.SaveProgress, moment, interrupt)

def damaged(name):
    path = Path(folder, "checkpoints", name)
    data = bytearray(path.read_bytes())
    data[-1000] ^= 1
    path.write_bytes(data)

def run(end):
    if end:
        globals()[end[0]](*end[1:])
    sys.argv = ["zoo.train", *sys.argv[4:], "--output_dir", folder]
    run_command(train.main)
    sys.exit()

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where tests run in the background
folder, output = sys.argv[1:3]
results, ends = [], json.loads(sys.argv[3])
if not output:
    run(*ends)
for end in ends:
    process = os.fork()
    if not process:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        run(end)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    left = sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))
    results.append([code, Path(output).read_text(), left])
print(json.dumps(results))
"""
SIGINT, SIGTERM, KILLED = int(signal.SIGINT), int(signal.SIGTERM), -signal.SIGKILL


def begin(folder: Path, command: str, *ends, output="", **environment) -> subprocess.Popen:
    """Starts the program, with as many threads as TensorFlow takes by itself."""
    kept = {name: value for name, value in os.environ.items() if "_THREADS" not in name}
    environment = {**kept, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    arguments = [str(folder), output, json.dumps(ends), *command.split()]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([sys.executable, "-c", STARTER, *arguments], env=environment, **streams)


def start(folder: Path, command: str, *ends) -> list:
    """Exit status, output and files in the folder after each start of the same command."""
    process = begin(folder, command, *ends, output=f"{folder}.txt")
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    return json.loads(printed.splitlines()[-1])


def without_seconds(pairs: list) -> dict:
    return {key: value for key, value in pairs if not key.endswith(("per_second", "_seconds"))}


def contents(path: Path) -> list:
    """Weights of a file, or the JSON of its lines."""
    if path.suffix == ".h5":
        arrays = h5_arrays(path)
        assert len(arrays) > 50
        return [arrays]
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    return [json.loads(line, object_pairs_hook=without_seconds) for line in lines]


def assert_same(whole: Path, folder: Path, names: list[str]) -> None:
    """Compares results and weights to the bit."""
    for name in names:
        if name.endswith((".h5", ".json", ".jsonl")):
            np.testing.assert_equal(contents(folder / name), contents(whole / name))


ENDS = [
    (["killed", "config.yaml"], KILLED, ""),
    (["half", "step-000000008.safetensors"], KILLED, ""),
    (["interrupted", "on_train_batch_begin", SIGINT, 2], -SIGINT, ""),  # ended at once
    (["killed", "step-000000016.safetensors"], KILLED, ""),
    (["interrupted", "on_test_batch_begin", SIGINT], 1, "stopped at step 22; the same"),
    (["killed", "epochs.jsonl"], KILLED, ""),
    (["killed", "model.weights.h5"], KILLED, ""),
    (["killed", "metrics.json"], KILLED, ""),
    (["damaged", "step-000000022.safetensors"], 0, "22.safetensors (wrong checksum); usi"),
]


@pytest.mark.slow  # test_classification.py interrupts runs of other recipes
def test_killed_run_gives_the_same_weights(tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "run"
    ((code, output, files),) = start(whole, PLAIN, None)
    assert code == 0, output
    results = start(folder, PLAIN, *(end for end, *_ in ENDS))
    assert [code for code, *_ in results] == [code for _, code, _ in ENDS], results
    for (end, code, said), (_, output, left) in zip(ENDS, results, strict=True):
        assert said in output
        partial = [name for name in left if ".partial-" in name]
        written = [name for name in partial if name.endswith(f"/{end[1]}")]
        assert len(partial) == 2 * len(written) == 2 * (code == KILLED)

    def names(found: list[str]) -> list[str]:
        return [name for name in found if not name.startswith("logs/")]

    assert names(results[-1][2]) == names(files)  # without checkpoints
    assert_same(whole, folder, files)


# Few steps at a low rate: later ones would amplify rounding, which with AVX2 reaches 3e-4 of the
# largest shift of a normalization, which begins at 0.
ROUNDING = 5e-3
MIRRORED = f"{SHORT} --data.augment false --optimizer.learning_rate 0.004 --strategy mirrored"
MIRRORED += " --training.checkpoint_steps 4"


@pytest.mark.slow
def test_run_goes_on_with_another_number_of_devices(tmp_path):
    whole, folder, command = tmp_path / "whole", tmp_path / "stopped", MIRRORED
    if keras.backend.backend() == "tensorflow":
        command += " --model.synchronized_batch_norm true"
    stopped = ["interrupted", "on_train_batch_begin", SIGTERM, 1, 9]
    for place, devices, end, code in (
        (whole, 2, None, 0),
        (folder, 2, stopped, 1),
        (folder, 4, None, 0),
    ):
        process = begin(place, command, end, TEST_DEVICES=str(devices))
        output, _ = process.communicate()
        assert process.returncode == code, output
        assert f"CPU, {devices} replica(s)" in output
    assert f"resuming after step 10 of {STEPS}" in output
    expected, received = (keras.models.load_model(f / "model.keras") for f in (whole, folder))
    for one, other in zip(expected.weights, received.weights, strict=True):
        one, other = map(keras.ops.convert_to_numpy, (one, other))
        limit = ROUNDING * max(np.abs(one).max(), 1e-3)
        np.testing.assert_allclose(other, one, rtol=0, atol=limit)
    # One device agrees with what several have found.
    metrics = json.loads((folder / "metrics.json").read_text())
    images, labels = load_data(DataConfig(), 8).test.sample(1000)
    accuracy = (predict(received, images).argmax(-1) == labels).mean()
    assert metrics["test"]["accuracy"] == pytest.approx(accuracy, abs=1e-6)


WORKERS = f"{SHORT} --strategy multi_worker --model.overrides dropout_rate=0.2"
WORKERS += " --training.ema 0.9 --training.steps_per_execution 4 --training.checkpoint_steps 8"


def start_workers(folder: Path, terminate_at: int = STEPS) -> list[subprocess.Popen]:
    """Starts two processes, of which the second gets SIGTERM at a step."""
    workers = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    ends = (None, ["interrupted", "on_train_batch_begin", SIGTERM, 1, terminate_at])
    return [begin(folder, WORKERS, ends[i], **cluster(workers, i)) for i in range(2)]


def finished(processes) -> tuple[list[int], list[str]]:
    outputs = [process.communicate(timeout=500)[0] for process in processes]
    return [process.returncode for process in processes], outputs


@pytest.mark.slow
def test_run_of_two_workers_that_loses_one_goes_on(tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "lost"
    codes, outputs = finished(start_workers(whole))
    assert codes == [0, 0], outputs

    chief, other = start_workers(folder)
    while not list(folder.glob("checkpoints/step-*")):
        assert (chief.poll(), other.poll()) == (None, None)
        time.sleep(0.02)
    other.kill()
    (code, _), (output, _) = finished([chief, other])
    assert (code, "another host of this run was lost" in output) == (1, True), output
    steps = [int(path.stem[5:]) for path in folder.glob("checkpoints/step-*")]
    assert 8 in steps

    # Told to stop, one alone, both save the step where they are.
    codes, outputs = finished(start_workers(folder, max(steps)))
    assert codes == [1, 1], outputs
    assert all(f"stopped at step {max(steps) + 4}" in output for output in outputs)

    codes, outputs = finished(start_workers(folder))
    assert codes == [0, 0], outputs
    assert f"resuming after step {max(steps) + 4} of" in outputs[0]
    assert_same(whole, folder, ["model.weights.h5"])
