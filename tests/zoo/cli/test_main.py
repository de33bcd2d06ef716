"""The console command."""

import re
import runpy
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import zoo
from zoo.benchmark.__main__ import COMMANDS
from zoo.cli.main import VERBS, main


def run(monkeypatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["lambda-keras", *arguments])
    main()


def test_every_command_of_the_zoo_is_a_verb():
    top = Path(zoo.__file__).parent
    commands = {path.parent.name for path in top.glob("*/__main__.py")}
    commands |= {path.stem for path in top.glob("*.py") if "__main__" in path.read_text("utf-8")}
    assert set(VERBS) == commands


def test_a_verb_is_the_module(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "zoo.list", raising=False)  # as in a new process
    run(monkeypatch, "list", "lambda_resnet50", "--format", "markdown")
    printed = capsys.readouterr().out
    assert "| lambda_resnet50 |" in printed
    asked = []
    monkeypatch.setattr(
        runpy, "run_module", lambda name, **how: asked.append((name, sys.argv, how))
    )
    run(monkeypatch, "train", "--help")
    ((name, arguments, how),) = asked
    assert (name, arguments[1:]) == ("zoo.train", ["--help"])
    assert how["run_name"] == "__main__"


@pytest.mark.parametrize(
    "verb", [*VERBS, *(f"benchmark {name}" for name in COMMANDS), "pseudo_label label"]
)
def test_help_names_no_file_of_a_checkout(capsys, verb):
    """Who has installed a wheel has no such file."""
    name, *arguments = verb.split()
    is_folder = find_spec(f"zoo.{name}").submodule_search_locations
    command = import_module(f"zoo.{name}.__main__" if is_folder else f"zoo.{name}")
    with suppress(SystemExit):
        command.main([*arguments, "--help"])
    printed = capsys.readouterr().out
    assert len(printed) > 100
    assert not re.search(r"\b(docs|notebooks|requirements|tests|tpu_configs|zoo)/", printed)


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_help_names_every_verb(monkeypatch, capsys, arguments):
    run(monkeypatch, *arguments)
    printed = capsys.readouterr().out
    assert all(f"  {verb} " in printed for verb in VERBS)


def test_an_unknown_verb_ends_with_one_line(monkeypatch, capsys):
    with pytest.raises(SystemExit) as caught:
        run(monkeypatch, "trian")
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: expected a verb. Received: 'trian' (did you mean 'train'?)")
    assert error.count("\n") == 1
