"""tpu_vm.sh: the commands that it would run, and what it refuses. It never calls gcloud here."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path("tpu_configs/tpu_vm.sh").resolve()
WHERE = ["--name", "t", "--zone", "z"]
TRAIN = ["--", "--config", "tpu_configs/a.yaml", "--data.dir", "it's here"]


def call(*arguments, path=os.environ["PATH"]):
    return subprocess.run(
        ["/bin/bash", str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        env={"PATH": path},
    )


SHOW_WORDS = """
gcloud() { printf '%s\\0' gcloud "$@"; printf '\\n\\0'; }
git() { :; }
rm() { :; }
"""


def dry_run(command, *options):
    """The commands of gcloud as lists of words, as a shell understands what is printed."""
    result = call(command, "--dry-run", *WHERE, *options)
    assert result.returncode == 0, result.stderr
    shell = ["/bin/bash", "-euc", SHOW_WORDS + result.stdout]
    words = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split("\0")
    commands = [[]]
    for word in words[:-1]:
        if word == "\n":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands[:-1]


def remote(command, *options):
    """The number of the host, or all, and what runs there."""
    for words in dry_run(command, *options):
        if "ssh" in words:
            return words[-2], words[-1].removeprefix("--command=")
    raise AssertionError("no ssh")


@pytest.mark.parametrize(
    ("options", "version"),
    [
        ([], "tpu-vm-tf-2.20.0-se"),
        (["--type", "v3-32"], "tpu-vm-tf-2.20.0-pod-se"),
        (["--type", "v5litepod-16"], "tpu-vm-tf-2.20.0-pod-pjrt"),
        (["--backend", "jax", "--type", "v3-32"], "tpu-ubuntu2204-base"),
        (["--backend", "jax", "--type", "v5litepod-8"], "v2-alpha-tpuv5-lite"),
        (["--version", "mine"], "mine"),
    ],
)
def test_create(options, version):
    (words,) = dry_run("create", "--spot", "--project", "p", *options)
    kind = options[options.index("--type") + 1] if "--type" in options else "v3-8"
    assert words == [
        *("gcloud", "compute", "tpus", "tpu-vm", "create", "t", "--zone=z", "--project=p"),
        *(f"--accelerator-type={kind}", f"--version={version}", "--spot"),
    ]


@pytest.mark.parametrize(
    ("backend", "wheel"), [("tensorflow", "tensorflow-tpu==2.20.0 libtpu"), ("jax", "'jax[tpu]'")]
)
def test_setup_installs_the_lock_file_and_the_tpu_wheel_on_every_host(backend, wheel):
    worker, script = remote("setup", "--backend", backend, "--type", "v3-32")
    assert worker == "--worker=all"
    lock = f"requirements/{backend}.lock"
    assert f"--requirement {lock}" in script
    assert Path(lock).is_file()
    assert script.index(lock) < script.index(wheel)
    assert ("uninstall --quiet tensorflow" in script) == (backend == "tensorflow")
    checked = subprocess.run(["/bin/bash", "-n"], input=script, text=True, capture_output=True)
    assert checked.stderr == ""


@pytest.mark.parametrize(
    ("options", "worker", "environment"),
    [
        ([], "all", "TPU_NAME=local"),
        (["--type", "v3-32"], "0", "TPU_NAME=t TPU_LOAD_LIBRARY=0"),
        (["--backend", "jax"], "all", "KERAS_BACKEND=jax"),
        (["--backend", "jax", "--type", "v3-32"], "all", "KERAS_BACKEND=jax"),
    ],
)
def test_train_and_logs(options, worker, environment):
    bucket = ["--output_dir", "gs://b/run"]  # several JAX hosts must share the folder
    host, script = remote("train", *options, *TRAIN, *bucket)
    assert host == f"--worker={worker}"
    program = "nohup .venv/bin/python -m zoo.train --config tpu_configs/a.yaml"
    assert f"{environment} {program} --data.dir 'it'\\''s here'" in script
    assert script.endswith(">> train.log 2>&1 < /dev/null &")
    several = "jax" in options and "v3-32" in options
    assert ("--strategy multi_worker" in script) == several
    host, script = remote("logs", *options)
    assert host == "--worker=0"
    assert script.startswith("tail ")


def test_fetch_and_delete():
    (words,) = dry_run("fetch")
    assert words[3:8] == ["tpu-vm", "scp", "--recurse", "t:lambda_keras/runs", "."]
    (words,) = dry_run("delete")
    assert words[3:] == ["tpu-vm", "delete", "t", "--zone=z"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "expected a command: create, setup"),
        (["create", "--zone", "z"], "--name: expected the name"),
        (["create", "--name", "t"], "--zone: expected a zone"),
        (["create", "--name"], "--name: expected a value"),
        (["create", "--name", "--zone", "z"], "--name: expected a value"),
        (["create", *WHERE, "--backend", "torch"], "expected tensorflow or jax. Received: torch"),
        (["create", *WHERE, "--type", "v3"], "such as v3-8. Received: v3"),
        (["create", "delete", *WHERE], "expected one command. Received: create and delete"),
        (["resize", *WHERE], "expected a command or an option. Received: resize"),
        (["delete", *WHERE, "--dry-run", "--", "x"], "delete: expected no arguments. Received: x"),
        (["train", *WHERE, "--dry-run"], "train: expected the arguments of zoo.train after --"),
        (
            ["train", *WHERE, "--type", "v3-32", "--backend", "jax", "--dry-run", *TRAIN],
            "several hosts need --output_dir gs://BUCKET/FOLDER",
        ),
        (["create", *WHERE], "gcloud is not installed: https://"),
    ],
)
def test_refusals_are_one_line(tmp_path, arguments, reason):
    result = call(*arguments, path=str(tmp_path))  # where there is no gcloud
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_help():
    result = call("--help")
    assert result.returncode == 0
    for word in ("create", "setup", "train", "logs", "fetch", "delete", "--dry-run", "--spot"):
        assert word in result.stdout
