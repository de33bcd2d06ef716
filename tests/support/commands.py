"""Commands of the zoo, run in this process."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from zoo.cli.commands import COMMANDS
from zoo.cli.main import Verb
from zoo.cli.run import run_command

# Every row of the table of commands, by verb, part and task if there are several.
ROWS = {
    " ".join(filter(None, (verb, part, task if Verb(verb).by_task else ""))): place
    for verb, row in COMMANDS.items()
    for part, command in (row.parts or {"": row}).items()
    for task, place in command.places.items()
}


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
    before = written()
    error = fail(mains.get(verb) or Verb(verb), capsys, *arguments, *more)
    assert error[:-1].isprintable()
    assert written() == before
    return error


def write(files: Mapping[str, Any]) -> None:
    """Writes files to the current folder: bytes, text, or anything else as JSON."""
    for name, content in files.items():
        if not isinstance(content, str | bytes):
            content = json.dumps(content)
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)


def written() -> dict[Path, float]:
    """Everything in the current folder, and when files were written."""
    return {path: path.is_file() and path.lstat().st_mtime_ns for path in Path().rglob("*")}


def lines(name: str) -> list[tuple[str, str]]:
    """Command lines of a table of tests/bad_inputs, and the parts of their messages."""
    text = (Path(__file__).parents[1] / "bad_inputs" / name).read_text("utf-8")
    rows = [line.partition(" =>") for line in text.splitlines() if line and line[0] != "#"]
    return [(line, message.strip()) for line, _, message in rows]


def words(line: str) -> list[str]:
    """A command line of such a table, as a shell splits it; `\\x1b` is a character."""
    text = re.sub(r"\\(?:x(..)|u(....))", lambda code: chr(int(code[1] or code[2], 16)), line)
    return shlex.split(text.replace("$LONG", "a" * 5000))


def present(rows: list) -> list:
    """Rows whose first word is a command that is there: `python -m tools.rooms` removes some."""
    return [row for row in rows if row[0].split()[0] in COMMANDS]


WITHOUT = """
import contextlib, io, runpy, sys
sys.modules.update(dict.fromkeys({packages}))
for line in sys.stdin:
    sys.argv = line.split()
    output, code = io.StringIO(), 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            runpy.run_module(sys.argv[0], run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
    print(code, *output.getvalue().splitlines()[-1:])
"""


def run_without(packages: tuple[str, ...], *lines: str) -> list[str]:
    """Runs modules in one new process; returns the exit code and the last line of each."""
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(packages=packages)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
    )
    printed = process.stdout.splitlines()
    assert len(printed) == len(lines), process.stderr
    return printed
