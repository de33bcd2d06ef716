"""How commands start and fail."""

import os
import sys

import keras
import pytest

from zoo import cli


@pytest.mark.parametrize("kind", [ValueError, FileNotFoundError, OSError, ImportError])
def test_command_ends_with_one_line_and_code_2(capsys, kind):
    def command(_):
        raise kind("what\nis wrong")

    with pytest.raises(SystemExit) as caught:
        cli.run(command)
    assert caught.value.code == 2
    assert capsys.readouterr().err == "error: what is wrong\n"


def test_interrupted_command_ends_with_one_line(capsys):
    def command(_):
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as caught:
        cli.run(command)
    assert caught.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_faults_of_the_program_keep_their_traceback():
    def command(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cli.run(command)


def test_commands_run_on_tensorflow(monkeypatch, capsys):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    cli.run(lambda _: None)
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    with pytest.raises(SystemExit):
        cli.run(lambda _: pytest.fail("ran"))
    assert "Received: 'jax'" in capsys.readouterr().err


def test_commands_may_run_on_other_backends(monkeypatch, capsys):
    for backend in cli.BACKENDS:
        monkeypatch.setenv("KERAS_BACKEND", backend)
        cli.run(lambda _: None, backends=cli.BACKENDS)
    monkeypatch.setenv("KERAS_BACKEND", "theano")
    with pytest.raises(SystemExit):
        cli.run(lambda _: pytest.fail("ran"), backends=cli.BACKENDS)
    assert "tensorflow or jax or torch. Received: 'theano'" in capsys.readouterr().err


def test_backend_is_chosen_before_keras_is_imported_and_not_after(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "unread")
    cli.use_backend(keras.config.backend())
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    with pytest.raises(RuntimeError, match="Keras already runs on tensorflow, not on jax"):
        cli.use_backend("jax")
    monkeypatch.delitem(sys.modules, "keras")
    cli.use_backend("jax")
    assert os.environ["KERAS_BACKEND"] == "jax"
