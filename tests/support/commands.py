"""Commands of the zoo, run in this process."""

from collections.abc import Sequence

import pytest

from zoo.cli.run import run_command


def fail(command, monkeypatch, capsys, *arguments: str, backends: Sequence[str] = ("tensorflow",)):
    """Runs a command's `main`, which has to end with one line and code 2; returns the line."""
    monkeypatch.setattr("sys.argv", ["command", *arguments])
    with pytest.raises(SystemExit) as caught:
        run_command(command, backends)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error
