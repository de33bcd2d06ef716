"""A run that is killed while it writes, or interrupted, ends like one that never was."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file

COMMAND = (
    "--model.image_size 8 --training.epochs 1 --optimizer.warmup_epochs 0 --training.ema 0.9 "
    "--training.checkpoint_steps 8 --training.steps_per_execution 4 --data.augment false"
)

# Imports once, then runs the command in a process of its own for each way in which it may end:
# killed before a file gets its name, or sent SIGINT at the begin of a batch.
STARTER = """
import json, os, signal, sys
from pathlib import Path
from zoo.train import callbacks
from zoo.cli.run import run_command
from zoo.train import __main__ as train
from zoo.train import classification

def prepare(how, what, times=1):
    if how == "killed":
        replace = os.replace
        def killed(source, target):
            if Path(target).name == what:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(source, target)
        os.replace = killed
    else:
        begin = getattr(callbacks.SaveProgress, what)
        def interrupted(self, batch, logs=None):
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
            begin(self, batch, logs)
        setattr(callbacks.SaveProgress, what, interrupted)

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where tests run in the background
folder, output = sys.argv[1:3]
results = []
for end in json.loads(sys.argv[3]):
    process = os.fork()
    if not process:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        if end:
            prepare(*end)
        sys.argv = ["zoo.train", *sys.argv[4:], "--output_dir", folder]
        run_command(train.main)
        sys.exit()
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    left = sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))
    results.append([code, Path(output).read_text(), left])
print(json.dumps(results))
"""


def start(folder: Path, *ends) -> list:
    """Exit status, output and files in the folder after each start of the same command."""
    # With as many threads as TensorFlow takes by itself.
    environment = {name: value for name, value in os.environ.items() if "_THREADS" not in name}
    output = f"{folder}.txt"
    process = subprocess.run(
        [sys.executable, "-c", STARTER, str(folder), output, json.dumps(ends), *COMMAND.split()],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def without_seconds(values: dict) -> dict:
    seconds = ("images_per_second", "training_seconds")
    return {
        name: without_seconds(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if name not in seconds
    }


def arrays(path: Path) -> dict[str, np.ndarray]:
    if path.suffix == ".safetensors":
        return load_file(path)
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.update({name: item[()]} if hasattr(item, "shape") else {})
        )
    return found


@pytest.mark.very_slow
def test_killed_writes_and_interrupts_leave_no_trace(tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "run"
    ((code, output, expected),) = start(whole, None)
    assert code == 0, output

    ends = [
        ("killed", "config.yaml"),
        ("interrupted", "on_train_batch_begin", 2),  # which ends it at once
        ("killed", "step-000000016.safetensors"),
        ("interrupted", "on_test_batch_begin"),
        ("killed", "epochs.jsonl"),
        ("killed", "model.weights.h5"),
        ("killed", "metrics.json"),
        None,
    ]
    results = start(folder, *ends)
    codes = [code for code, _, _ in results]
    stopped = 1
    assert codes == [
        -signal.SIGKILL,
        -signal.SIGINT,
        -signal.SIGKILL,
        stopped,
        *3 * [-signal.SIGKILL],
        0,
    ], results
    for end, (_, _, left) in zip(ends, results, strict=True):
        partial = [name for name in left if ".partial-" in name]
        written = [name for name in partial if end and name.endswith(f"/{end[1]}")]
        assert len(partial) == 2 * len(written) == 2 * (end is not None and end[0] == "killed")
    assert "stopped at step 22; the same command resumes from there" in results[3][1]

    def names(files: list[str]) -> list[str]:
        return [name for name in files if not name.startswith("logs/")]

    assert names(results[-1][2]) == names(expected)
    for name in expected:
        one, other = whole / name, folder / name
        if name == "metrics.json":
            first, second = (json.loads(path.read_text()) for path in (one, other))
            assert without_seconds(first) == without_seconds(second)
        elif name == "epochs.jsonl":
            first, second = (path.read_text().splitlines() for path in (one, other))
            assert [without_seconds(json.loads(line)) for line in first] == [
                without_seconds(json.loads(line)) for line in second
            ]
        elif name.endswith((".h5", ".safetensors")):
            first, second = arrays(one), arrays(other)
            assert first.keys() == second.keys()
            assert len(first) > 50
            for key, value in first.items():
                np.testing.assert_array_equal(value, second[key], key)
