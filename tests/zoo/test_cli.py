"""How commands start and fail."""

import os

import pytest

from zoo import cli


@pytest.mark.parametrize("kind", [ValueError, FileNotFoundError, ImportError])
def test_command_ends_with_one_line_and_code_2(capsys, kind):
    def command(_):
        raise kind("what is wrong")

    with pytest.raises(SystemExit) as caught:
        cli.run(command)
    assert caught.value.code == 2
    assert capsys.readouterr().err == "error: what is wrong\n"


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
