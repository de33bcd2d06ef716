"""The backend of Keras, TensorFlow's environment, and forks."""

import os
import platform
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest

from zoo import backend
from zoo.api import load
from zoo.backend import BACKENDS, use_backend, use_default_backend
from zoo.inference.images import read_pixels

pytestmark = pytest.mark.one_backend


def test_tensorflow_is_the_default_and_commands_may_run_on_others(monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.delitem(sys.modules, "keras")  # as at the start of a process
    use_default_backend(BACKENDS[:1])
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    for name in BACKENDS:
        monkeypatch.setenv("KERAS_BACKEND", name)
        use_default_backend(BACKENDS)
    for name, allowed, names in (
        ("jax", BACKENDS[:1], "tensorflow"),
        ("theano", BACKENDS, "tensorflow or jax or torch"),
    ):
        monkeypatch.setenv("KERAS_BACKEND", name)
        message = rf"Keras on {names} \(KERAS_BACKEND, before its import\)\. Received: '{name}'"
        with pytest.raises(ValueError, match=message):
            use_default_backend(allowed)


def test_an_imported_keras_decides(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    use_default_backend(BACKENDS[:1])  # Keras runs on TensorFlow
    with pytest.raises(ValueError, match="Received: 'tensorflow'"):
        use_default_backend(BACKENDS[1:])


def test_backend_is_chosen_before_keras_is_imported_and_not_after(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "unread")
    use_backend(keras.config.backend())
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    with pytest.raises(RuntimeError, match="Keras already runs on tensorflow, not on jax"):
        use_backend("jax")
    monkeypatch.delitem(sys.modules, "keras")
    use_backend("jax")
    assert os.environ["KERAS_BACKEND"] == "jax"


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="oneDNN for x86")
def test_onednn_is_on_unless_the_environment_says_no(monkeypatch):
    for given, used in ((None, "1"), ("0", "0")):
        monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
        if given:
            monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", given)
        use_default_backend(BACKENDS)
        assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == used


# TensorFlow 2.21 logs at its import, before it reads TF_CPP_MIN_LOG_LEVEL.
EARLY = ("WARNING: All log messages before absl::InitializeLog() is called", "I0000 ")


@pytest.mark.slow
def test_commands_print_no_lines_of_tensorflow():
    code = """
from zoo.cli.run import run_command
def command(_):
    import tensorflow
    from absl import logging
    tensorflow.config.list_logical_devices()
    tensorflow.get_logger().warning("of TensorFlow")
    logging.warning("of absl")
    logging.error("an error")
run_command(command)"""
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert process.stdout == ""
    lines = [line for line in process.stderr.splitlines() if not line.startswith(EARLY)]
    assert lines == ["ERROR:absl:an error"]


def test_networks_in_a_fork_are_refused_and_loading_there_works(monkeypatch):
    monkeypatch.setattr(backend, "_process", None)
    backend.check_process()
    backend.check_process()
    image = np.zeros((8, 8, 3), "uint8")
    for use in (backend.check_process, partial(read_pixels, image), partial(load, "runs/x")):
        assert in_a_fork(use).startswith("load in the worker, after the fork (gunicorn without")
    monkeypatch.setattr(backend, "_process", None)  # as before anything was loaded
    assert in_a_fork(backend.check_process) == "None"


def in_a_fork(function) -> str:
    """Calls a function in a fork of this process; returns its result, or the RuntimeError."""
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            os.write(write, str(function()).encode())
        except RuntimeError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        return pipe.read()


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("0::/", {}, 8),
        ("0::/", {"cpu.max": "max 100000"}, 8),
        ("0::/", {"cpu.max": "150000 100000"}, 2),
        ("0::/a/b", {"cpu.max": "50000 100000", "a/b/cpu.max": "400000 100000"}, 1),
        ("0::/a/b", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, 3),
        ("0::/", {"cpu.max": "6400000 100000"}, 8),
        (
            "3:cpu,cpuacct:/docker/1\n2:cpuset:/\n0::/",  # the folder of the host is not there
            {"cpu,cpuacct/cpu.cfs_quota_us": "400000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            4,
        ),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
    ],
)
def test_cores_are_those_of_affinity_and_quotas(tmp_path, monkeypatch, group, files, expected):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    own = tmp_path / "own"
    assert backend.cores(tmp_path, own) == 8, "without control groups"
    own.write_text(f"{group}\n")
    assert backend.cores(tmp_path, own) == expected


def test_nothing_else_counts_the_cores_of_the_machine():
    counting = {
        path.name
        for path in Path(backend.__file__).parent.rglob("*.py")
        if re.search(r"cpu_count\(|ThreadPoolExecutor\(\)", path.read_text("utf-8"))
    }
    assert counting == {"backend.py"}
