"""An interrupted run, started again, gives the weights of one that was never interrupted."""

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

import lambda_keras  # noqa: F401  registers the layers of the saved models

STEPS = 22  # of an epoch
# Dropout and stochastic depth draw random numbers at every step, RandAugment for every image.
COMMAND = (
    "--model.image_size 8 --model.overrides dropout_rate=0.2 "
    "--model.overrides stochastic_depth_rate=0.2 --training.epochs 3 --training.ema 0.9 "
    "--data.randaugment_magnitude 10 --optimizer.weight_decay 1e-4 "
    "--training.checkpoint_steps 8 --training.steps_per_execution 4 "
    "--optimizer.warmup_epochs 1"
)
# Besides, what mixes images, adds up gradients, and has variables of its own.
MODERN = (
    f"{COMMAND} --optimizer.name lamb --optimizer.learning_rate 0.02 --optimizer.layer_decay 0.8 "
    "--optimizer.global_clipnorm 1 --training.gradient_accumulation_steps 2 "
    "--training.loss binary_crossentropy --data.mixup 0.2 --data.cutmix 1 "
    "--data.random_erasing 0.3 --data.color_jitter 0.4 --data.class_weights balanced"
)
# Kills the process as nothing in it can prevent, in the middle of writing a file.
KILLER = """
import os, signal, sys
from pathlib import Path
if (devices := int(os.environ.get("TEST_DEVICES", 1))) > 1:
    from support import loopback
    loopback.virtual_cpus(devices)
from zoo.train import callbacks
from zoo.train import __main__ as train

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

moment, when = sys.argv[1], int(sys.argv[2])
if moment == "writing":
    write = Path.write_bytes
    def write_bytes(path, data):
        if path.name == f"step-{when:09d}.safetensors":
            write(path, data[: len(data) // 2])
            kill()
        write(path, data)
    Path.write_bytes = write_bytes
elif moment == "terminated":
    begin = callbacks.SaveProgress.on_train_batch_begin
    def on_train_batch_begin(self, batch, logs=None):
        if self.model.steps_done >= when:
            os.kill(os.getpid(), signal.SIGTERM)
        begin(self, batch, logs)
    callbacks.SaveProgress.on_train_batch_begin = on_train_batch_begin
train.main(sys.argv[3:])
"""


def as_users_have_it() -> dict[str, str]:
    """The environment, with as many threads as TensorFlow takes by itself."""
    return {name: value for name, value in os.environ.items() if "_THREADS" not in name}


def start(
    folder: Path, command: str, moment: str = "never", when: int = 0, devices: int = 1
) -> subprocess.CompletedProcess:
    arguments = [*command.split(), "--output_dir", str(folder)]
    return subprocess.run(
        [sys.executable, "-c", KILLER, moment, str(when), *arguments],
        env={
            **as_users_have_it(),
            "TEST_DEVICES": str(devices),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
    )


def checkpoints(folder: Path) -> list[int]:
    return sorted(int(p.stem[5:]) for p in (folder / "checkpoints").glob("step-*"))


@pytest.mark.very_slow  # tests/zoo/train/test_classification.py has a run that is told to stop
@pytest.mark.parametrize("command", [COMMAND, MODERN], ids=["paper", "modern"])
def test_killed_run_gives_the_same_weights(tmp_path, command):
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    process = start(whole, command)
    assert process.returncode == 0, process.stderr

    # While the checkpoint at the end of the first epoch is written.
    assert start(folder, command, "writing", STEPS).returncode == -signal.SIGKILL
    assert checkpoints(folder) == [8, 16]
    # By SIGTERM, which leaves the time to save; and the newest file gets damaged.
    process = start(folder, command, "terminated", 2 * STEPS + 5)
    assert "resuming after step 16 of 66" in process.stdout
    assert "stopped at step 56; the same command resumes from there" in process.stderr
    assert process.returncode == 1
    newest = folder / "checkpoints" / "step-000000056.safetensors"
    data = bytearray(newest.read_bytes())
    data[-1000] ^= 1
    newest.write_bytes(data)

    process = start(folder, command)
    assert process.returncode == 0, process.stderr
    assert f"damaged checkpoint {newest} (wrong checksum); using the one before" in process.stderr
    assert json.loads((folder / "metrics.json").read_text())["history"].keys() >= {"val_loss"}
    model = keras.models.load_model(whole / "model.keras")
    averages = model.get_weights()
    for file in ("model.weights.h5", "raw.weights.h5"):
        model.load_weights(whole / file)
        expected = model.get_weights()
        model.load_weights(folder / file)
        for one, other in zip(expected, model.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
    assert any((one != other).any() for one, other in zip(averages, expected, strict=True))
    lines = [(f / "epochs.jsonl").read_text().splitlines() for f in (whole, folder)]
    ends = [[json.loads(line)["val_loss"] for line in one] for one in lines]
    assert ends[0] == ends[1]
    assert not (folder / "checkpoints").exists()  # nobody needs them any more


# Few steps at a low rate: later ones would amplify rounding.
MIRRORED = (
    "--model.image_size 8 --training.epochs 1 --optimizer.warmup_epochs 0 --data.augment false "
    "--optimizer.learning_rate 0.004 --training.checkpoint_steps 4 --strategy mirrored"
)


@pytest.mark.very_slow
def test_run_goes_on_with_another_number_of_devices(tmp_path):
    whole, folder, command = tmp_path / "whole", tmp_path / "stopped", MIRRORED
    if keras.backend.backend() == "tensorflow":
        command += " --model.synchronized_batch_norm true"
    process = start(whole, command, devices=2)
    assert process.returncode == 0, process.stderr
    assert "CPU, 2 replica(s)" in process.stdout
    assert start(folder, command, "terminated", 9, devices=2).returncode == 1
    process = start(folder, command, devices=4)
    assert process.returncode == 0, process.stderr
    assert "CPU, 4 replica(s)" in process.stdout
    assert f"resuming after step 10 of {STEPS}" in process.stdout
    expected, received = (keras.models.load_model(f / "model.keras") for f in (whole, folder))
    for one, other in zip(expected.weights, received.weights, strict=True):
        one, other = map(keras.ops.convert_to_numpy, (one, other))
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-5 * max(np.abs(one).max(), 1e-3))


WORKERS = (
    "--strategy multi_worker --model.image_size 8 --training.epochs 1 --optimizer.warmup_epochs 0 "
    "--model.overrides dropout_rate=0.2 --training.ema 0.9 "
    "--training.steps_per_execution 4 --training.checkpoint_steps 8"
)


def start_workers(folder: Path, terminate_at: int = STEPS) -> list[subprocess.Popen]:
    """Starts two processes, of which the second gets SIGTERM at a step."""
    workers = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    arguments = [*WORKERS.split(), "--output_dir", str(folder)]
    commands = (
        ["-m", "zoo.train", *arguments],
        ["-c", KILLER, "terminated", str(terminate_at), *arguments],
    )
    processes = []
    for index in range(len(workers)):
        with open(f"{folder}.{index}.txt", "w") as output:
            processes.append(
                subprocess.Popen(
                    [sys.executable, *commands[index]],
                    env=as_users_have_it() | cluster(workers, index),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )
    return processes


@pytest.mark.very_slow
def test_run_of_two_workers_that_loses_one_goes_on(tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "lost"
    assert [process.wait() for process in start_workers(whole)] == [0, 0]

    chief, other = start_workers(folder)
    while other.poll() is None and not checkpoints(folder):
        time.sleep(0.02)
    other.kill()
    other.wait()
    assert chief.wait(timeout=300) == 1
    assert "another host of this run was lost" in Path(f"{folder}.0.txt").read_text()
    assert 8 in checkpoints(folder)

    # Told to stop, one alone, both save the step where they are.
    last = max(checkpoints(folder))
    assert [process.wait() for process in start_workers(folder, last)] == [1, 1]
    for worker in range(2):
        assert f"stopped at step {last + 4}" in Path(f"{folder}.{worker}.txt").read_text()

    assert [process.wait() for process in start_workers(folder)] == [0, 0]
    assert f"resuming after step {last + 4} of" in Path(f"{folder}.0.txt").read_text()
    model = keras.models.load_model(whole / "model.keras")
    expected = model.get_weights()
    model.load_weights(folder / "model.weights.h5")
    for one, other in zip(expected, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
