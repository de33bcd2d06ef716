"""Commands of the zoo, run in this process."""

import re
from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType

import pytest

from zoo.cli.run import run_command
from zoo.cli.settings import Settings


def module_of(command: str) -> str:
    """The module with the settings and `main` of a command."""
    spec = find_spec(command)
    return f"{command}.__main__" if spec and spec.submodule_search_locations else command


def settings_of(module: ModuleType) -> type[Settings]:
    """The class of the settings of a command, which is defined in a module."""
    (settings,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Settings)
        and value.__module__ == module.__name__
        and value.model_config.get("cli_prog_name")
    )
    return settings


def fail(command, monkeypatch, capsys, *arguments: str, backends: Sequence[str] = ("tensorflow",)):
    """Runs a command's `main`, which has to end with one line and code 2; returns the line.

    A line about the images that were found may stand before it.
    """
    monkeypatch.setattr("sys.argv", ["command", *arguments])
    with pytest.raises(SystemExit) as caught:
        run_command(command, backends)
    assert caught.value.code == 2
    error = re.sub(r"\A.* images .*\n(?=error: )", "", capsys.readouterr().err)
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error
