"""tpu_vm.sh: the commands that it would run, and what it refuses. It never calls gcloud here."""

import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

SCRIPT = Path("tpu_configs/tpu_vm.sh").resolve()
WHERE = ["--name", "t", "--zone", "z"]
TRAIN = ["--", "--config", "tpu_configs/a.yaml", "--data.dir", "it's here"]


def call(*arguments, path=os.environ["PATH"], cwd=None, **environment):
    return subprocess.run(
        ["/bin/bash", str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"PATH": path, **environment},
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
        *(f"--version={version}", f"--accelerator-type={kind}", "--spot"),
    ]


def test_queued_request_is_made_shown_and_deleted_with_its_vm():
    (words,) = dry_run("create", "--queued", "--spot")
    assert words[3:] == [
        *("queued-resources", "create", "t", "--zone=z", "--node-id=t"),
        *("--runtime-version=tpu-vm-tf-2.20.0-se", "--accelerator-type=v3-8", "--spot"),
    ]
    request, vm, run = dry_run("status", "--queued")
    assert request[3:6] == ["queued-resources", "describe", "t"]
    assert vm[3:6] == ["tpu-vm", "describe", "t"]
    assert run[3:6] == ["tpu-vm", "ssh", "t"]
    assert dry_run("status") == [vm, run]
    (words,) = dry_run("delete", "--queued")
    assert words[3:] == ["queued-resources", "delete", "t", "--zone=z", "--force"]


@pytest.mark.parametrize(
    ("backend", "wheel"), [("tensorflow", "'.[tpu]'"), ("jax", "'.[jax-tpu]'")]
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
    assert script.endswith(">> train.log 2>&1 < /dev/null &\necho $! > train.pid")
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


# Does on this machine, in the folder HOST, what gcloud does on a host; scp fails if there is none.
GCLOUD = """#!/bin/bash
command=${!#}
cd "$HOST" || exit 1
case $4 in
  scp) cp "$5" . ;;
  ssh) bash -c "${command#--command=}" ;;
esac
"""
# The program that runs there prints when it begins and when it is interrupted.
TRAIN_PY = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit("saved"))
print("started", *sys.argv[1:], flush=True)
time.sleep(60)
"""


@pytest.fixture
def gcloud(tmp_path):
    """Calls the script with that gcloud, from the folder tmp_path/here."""
    for name in ("bin", "here", "temporary"):
        (tmp_path / name).mkdir()
    file = tmp_path / "bin" / "gcloud"
    file.write_text(GCLOUD)
    file.chmod(0o755)
    # So that setup ends where it would install.
    (tmp_path / "bin" / "python3").symlink_to(shutil.which("false"))
    environment = {
        "path": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "cwd": tmp_path / "here",
        "TMPDIR": str(tmp_path / "temporary"),
        "HOST": str(tmp_path / "host"),
    }
    return lambda command, *options: call(command, *WHERE, *options, **environment)


def checkout(folder):
    """A copy of the script in a repository of its own, with one commit; returns the script."""
    script = folder / "tpu_configs" / SCRIPT.name
    script.parent.mkdir(parents=True)
    shutil.copy(SCRIPT, script)
    (folder / "README.md").write_text("committed")
    git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], check=True)
    return script


def test_setup_copies_the_whole_commit_from_any_folder_and_leaves_nothing(
    tmp_path, gcloud, monkeypatch
):
    script = checkout(tmp_path / "checkout")
    monkeypatch.setitem(globals(), "SCRIPT", script)
    (tmp_path / "checkout" / "README.md").write_text("changed")
    failed = gcloud("setup")  # there is no host
    assert failed.returncode != 0
    assert "changes that are in no commit, and are not copied: 1\n" in failed.stderr
    (tmp_path / "host").mkdir()
    gcloud("setup")
    with tarfile.open(tmp_path / "host" / "lambda_keras.tar.gz") as archive:
        assert {"README.md", f"tpu_configs/{SCRIPT.name}"} <= set(archive.getnames())
        assert archive.extractfile("README.md").read() == b"committed"
    for name in ("here", "temporary"):
        assert not list((tmp_path / name).iterdir())
    subprocess.run(["git", "-C", script.parent, "checkout", "-q", ".."], check=True)
    assert "no commit" not in gcloud("setup", "--dry-run").stderr


@pytest.mark.skipif(shutil.which("flock") is None, reason="flock is of Linux")
def test_second_run_is_refused_and_stop_waits_until_the_first_has_saved(tmp_path, gcloud):
    folder = tmp_path / "host" / "lambda_keras"
    for name in ("zoo", ".venv/bin"):
        (folder / name).mkdir(parents=True)
    (folder / "zoo" / "train.py").write_text(TRAIN_PY)
    (folder / ".venv" / "bin" / "python").symlink_to(sys.executable)
    log = folder / "train.log"
    try:
        started = gcloud("train", "--", "--seed", "3")
        assert (started.returncode, started.stderr) == (0, "")
        deadline = time.monotonic() + 60
        while "started" not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert gcloud("status").stdout == "a run is active\nstarted --seed 3\n"
        second = gcloud("train", "--", "--seed", "4")
        assert second.returncode == 2
        assert second.stderr == "error: a run is active here already; stop ends it\n"
    finally:
        stopped = gcloud("stop")
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (0, "", "")
    assert log.read_text() == "started --seed 3\nsaved\n"
    assert gcloud("status").stdout == "no run is active\nsaved\n"
    assert gcloud("stop").stdout == "no run is active\n"


def test_help():
    result = call("--help")
    assert result.returncode == 0
    commands = ("create", "status", "setup", "train", "logs", "stop", "fetch", "delete")
    for word in (*commands, "--dry-run", "--spot", "--queued"):
        assert word in result.stdout
