"""Commands of the zoo, run in this process."""

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from zoo.cli.commands import COMMANDS
from zoo.cli.main import Verb
from zoo.cli.run import run_command


def parse(program: str, arguments: Sequence[str], task: str | None = None) -> Any:
    """The settings of a command line of `python -m PROGRAM`, of zoo or of tools."""
    if program.startswith("zoo."):
        return Verb(program.removeprefix("zoo.")).parse(arguments, task)[1]
    (settings,) = (
        value
        for value in vars(import_module(program)).values()
        if isinstance(value, type) and value.__module__ == program and hasattr(value, "to_yaml")
    )
    return settings.from_command_line(arguments)


def fail(command, capsys, *arguments: str):
    """Runs a command's `main`, which has to end with one line and code 2; returns the line.

    A line about the images that were found may stand before it.
    """
    with pytest.raises(SystemExit) as caught:
        run_command(lambda _: command(arguments))
    assert caught.value.code == 2
    error = re.sub(r"\A.* images .*\n(?=error: )", "", capsys.readouterr().err)
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def refuse(line: str, capsys, *more: str, **mains) -> str:
    """Runs `VERB ARGUMENTS`, which has to end as for `fail` and to write nothing; returns the line.

    A single space separates arguments, so that they may be empty. `mains` are not in the zoo.
    """
    verb, *arguments = line.split(" ")
    before = sorted(Path().rglob("*"))
    error = fail(mains.get(verb) or Verb(verb), capsys, *arguments, *more)
    assert error[:-1].isprintable()
    assert sorted(Path().rglob("*")) == before
    return error


def present(rows: list) -> list:
    """Rows whose first word is a command that is there: `python -m tools.rooms` removes some."""
    return [row for row in rows if row[0].split()[0] in COMMANDS]
