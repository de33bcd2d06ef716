"""How commands start and fail."""

import os
import platform
import subprocess
import sys
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest

from zoo.api import load
from zoo.cli import run
from zoo.cli.run import BACKENDS, run_command, use_backend
from zoo.inference.images import read_pixels


@pytest.mark.parametrize("kind", [ValueError, FileNotFoundError, OSError, ImportError])
def test_command_ends_with_one_line_and_code_2(capsys, kind):
    def command(_):
        raise kind("what\nis wrong")

    with pytest.raises(SystemExit) as caught:
        run_command(command)
    assert caught.value.code == 2
    assert capsys.readouterr().err == "error: what is wrong\n"


@pytest.mark.parametrize(("package", "extra"), [("yaml", "train"), ("jax", "jax")])
def test_missing_package_names_its_extra(capsys, package, extra):
    def command(_):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    with pytest.raises(SystemExit):
        run_command(command)
    line = f"error: {package} is not installed: pip install 'SOURCE[{extra}]', SOURCE being the "
    assert capsys.readouterr().err.startswith(line)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="oneDNN for x86")
@pytest.mark.parametrize(("given", "used"), [(None, True), ("0", False)])
def test_commands_compute_with_onednn_unless_told_otherwise(given, used):
    code = "from zoo.cli.run import run_command; run_command(lambda _: __import__('tensorflow'))"
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0", "TF_ENABLE_ONEDNN_OPTS": given}
    environment = {name: value for name, value in environment.items() if value is not None}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert ("oneDNN custom operations are on" in process.stderr) is used


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


def test_make_leaves_the_log_level_to_the_commands():
    assert "TF_CPP" not in Path("Makefile").read_text()


def test_networks_in_a_fork_are_refused_and_loading_there_works(monkeypatch):
    monkeypatch.setattr(run, "_process", None)
    run.check_process()
    run.check_process()
    image = np.zeros((8, 8, 3), "uint8")
    for use in (run.check_process, partial(read_pixels, image), partial(load, "runs/x")):
        assert in_a_fork(use).startswith("load in the worker, after the fork (gunicorn without")
    monkeypatch.setattr(run, "_process", None)  # as before anything was loaded
    assert in_a_fork(run.check_process) == "None"


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


# Packages that come with the extra "train", which `pip install '.[tensorflow]'` leaves out.
OF_TRAINING = ("PIL", "matplotlib", "official", "sklearn", "tensorflow_datasets")
COMMANDS = """
import contextlib, io, sys
sys.modules.update(dict.fromkeys({packages}))
from zoo.cli import run
from zoo.cli.main import Verb
from zoo.cli.run import run_command
for line in sys.stdin:
    sys.argv = line.split()
    output, code = io.StringIO(), 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            run_command(Verb(sys.argv[0]))
        except SystemExit as end:
            code = end.code or 0
    print(code, *output.getvalue().splitlines()[-1:])
"""


@pytest.mark.slow
def test_commands_without_the_extra_train_work_or_name_it(tmp_path):
    (tmp_path / "photo.png").write_bytes(b"")
    works = ["list", "flops lambda_resnet14 --image_size 16", "train --help"]
    fails = {
        f"train --output_dir {tmp_path}/run": "matplotlib",
        f"predict --model lambda_resnet14 --weights imagenet {tmp_path}/photo.png "
        f"--output {tmp_path}/sheet.png": "matplotlib",
    }
    process = subprocess.run(
        [sys.executable, "-c", COMMANDS.format(packages=OF_TRAINING)],
        input="\n".join([*works, *fails]),
        capture_output=True,
        text=True,
    )
    lines = process.stdout.splitlines()
    assert len(lines) == len(works) + len(fails), process.stderr
    assert [line[:2] for line in lines[:3]] == ["0 "] * 3
    for line, package in zip(lines[3:], fails.values(), strict=True):
        assert line.startswith(f"2 error: {package}")
        assert "is not installed: pip install 'SOURCE[train]', SOURCE being the folder or " in line
    assert [path.name for path in tmp_path.iterdir()] == ["photo.png"]


def test_interrupted_command_ends_with_one_line(capsys):
    def command(_):
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as caught:
        run_command(command)
    assert caught.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_errors_are_one_line_without_escapes(capsys):
    def command(_):
        raise ValueError("Received: \x1b[31m\nred \udce9")

    with pytest.raises(SystemExit):
        run_command(command)
    assert capsys.readouterr().err == "error: Received: \\x1b[31m red \\udce9\n"


def test_long_messages_are_cut_in_the_middle(capsys):
    def command(_):
        raise ValueError(f"expected a name. Received: {'a' * 200_000}, in the end")

    with pytest.raises(SystemExit):
        run_command(command)
    error = capsys.readouterr().err
    assert error.startswith("error: expected a name. Received: aaa")
    assert "aaa [198,0" in error
    assert error.endswith("aaa, in the end\n")
    assert 2000 < len(error) < 2100


def test_faults_of_the_program_keep_their_traceback():
    def command(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_command(command)


def test_commands_run_on_tensorflow(monkeypatch, capsys):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.delitem(sys.modules, "keras")  # as at the start of a process
    run_command(lambda _: None)
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    with pytest.raises(SystemExit):
        run_command(lambda _: pytest.fail("ran"), BACKENDS[:1])
    assert "Received: 'jax'" in capsys.readouterr().err


def test_commands_may_run_on_other_backends(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "keras")
    for backend in BACKENDS:
        monkeypatch.setenv("KERAS_BACKEND", backend)
        run_command(lambda _: None, backends=BACKENDS)
    monkeypatch.setenv("KERAS_BACKEND", "theano")
    with pytest.raises(SystemExit):
        run_command(lambda _: pytest.fail("ran"), backends=BACKENDS)
    assert (
        "tensorflow or jax or torch (KERAS_BACKEND, before its import). Received: 'theano'"
        in capsys.readouterr().err
    )


def test_backend_is_chosen_before_keras_is_imported_and_not_after(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "unread")
    use_backend(keras.config.backend())
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    with pytest.raises(RuntimeError, match="Keras already runs on tensorflow, not on jax"):
        use_backend("jax")
    monkeypatch.delitem(sys.modules, "keras")
    use_backend("jax")
    assert os.environ["KERAS_BACKEND"] == "jax"
