"""The backend of Keras, TensorFlow's environment, and forks."""

import os
import platform
import subprocess
import sys
from functools import partial

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
    assert process.stderr.splitlines() == ["ERROR:absl:an error"]


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
