"""The backend of Keras, TensorFlow's environment, and forks."""

import os
import platform
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from zoo import backend
from zoo.api import load
from zoo.backend import BACKENDS, use_backend, use_default_backend
from zoo.inference.images import read_pixels

pytestmark = pytest.mark.one_backend
NOT_IMPORTED: dict = {}  # modules at the start of a process
QUOTA = "cpu.cfs_quota_us"


def test_tensorflow_is_the_default_and_commands_may_run_on_others(environ):
    environ(KERAS_BACKEND=None)
    use_default_backend(BACKENDS[:1], NOT_IMPORTED)
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    for name in BACKENDS:
        environ(KERAS_BACKEND=name)
        use_default_backend(BACKENDS, NOT_IMPORTED)
    for name, allowed, names in (
        ("jax", BACKENDS[:1], "tensorflow"),
        ("theano", BACKENDS, "tensorflow or jax or torch"),
    ):
        environ(KERAS_BACKEND=name)
        message = rf"Keras on {names} \(KERAS_BACKEND, before its import\)\. Received: '{name}'"
        with pytest.raises(ValueError, match=message):
            use_default_backend(allowed, NOT_IMPORTED)


def test_an_imported_keras_decides(environ):
    environ(KERAS_BACKEND="jax")
    use_default_backend(BACKENDS[:1])  # Keras runs on TensorFlow
    with pytest.raises(ValueError, match="Received: 'tensorflow'"):
        use_default_backend(BACKENDS[1:])
    use_backend("tensorflow")
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    with pytest.raises(RuntimeError, match="Keras already runs on tensorflow, not on jax"):
        use_backend("jax")
    use_backend("jax", NOT_IMPORTED)
    assert os.environ["KERAS_BACKEND"] == "jax"


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="oneDNN for x86")
@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("0", "0")])
def test_onednn_is_on_unless_the_environment_says_no(environ, given, used):
    environ(TF_ENABLE_ONEDNN_OPTS=given)
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


FORK = """
import os
from zoo.backend import check_process
child = os.fork()
check_process()
assert not child or os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_networks_in_a_fork_are_refused_and_loading_there_works():
    backend.check_process()
    backend.check_process()
    image = np.zeros((8, 8, 3), "uint8")
    for use in (backend.check_process, partial(read_pixels, image), partial(load, "runs/x")):
        assert in_a_fork(use).startswith("load in the worker, after the fork (gunicorn without")
    subprocess.run([sys.executable, "-c", FORK], check=True)  # where nothing was loaded before


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
        # The folder of the host is not there.
        ("3:cpu,cpuacct:/docker/1\n2:cpuset:/\n0::/", {f"cpu,cpuacct/{QUOTA}": "400000"}, 4),
        ("1:cpu:/", {f"cpu/{QUOTA}": "-1"}, 8),
    ],
)
def test_cores_are_those_of_affinity_and_quotas(tmp_path, group, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
        (tmp_path / name).with_name("cpu.cfs_period_us").write_text("100000\n")
    own = tmp_path / "own"
    assert backend.cores(tmp_path, own, lambda: 8) == 8, "without control groups"
    own.write_text(f"{group}\n")
    assert backend.cores(tmp_path, own, lambda: 8) == expected


def test_cores_of_a_process_that_may_run_on_one():
    def schedulable() -> int:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        return backend.schedulable_cores()

    assert in_a_fork(schedulable) == "1"


def test_nothing_else_counts_the_cores_of_the_machine():
    counting = {
        path.name
        for path in Path(backend.__file__).parent.rglob("*.py")
        if re.search(r"cpu_count\(|ThreadPoolExecutor\(\)", path.read_text("utf-8"))
    }
    assert counting == {"backend.py"}
