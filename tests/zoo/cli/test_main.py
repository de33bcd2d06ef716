"""The table of commands, and how they start."""

import re
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import pytest
from support import commands
from support.commands import ROWS

import zoo
from zoo.cli.commands import COMMANDS
from zoo.cli.main import Verb, call, main
from zoo.cli.tasks import load

ALL, JAX, TENSORFLOW = ("tensorflow", "jax", "torch"), ("tensorflow", "jax"), ("tensorflow",)
PARTS = {verb: next(iter(row.parts)) for verb, row in COMMANDS.items() if row.parts}
# Backends of each command that runs on others than TensorFlow.
BACKENDS = {
    "list": ALL,
    "flops": ALL,
    "convert": ALL,
    "train classification": JAX,
    "evaluate classification": JAX,
    **{name: ALL for name in ROWS if name.startswith("benchmark ")},
}


@pytest.fixture
def run(monkeypatch):
    """Runs `lambda-keras` with some arguments."""

    def run(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["lambda-keras", *arguments])
        main()

    return run


def test_every_module_that_starts_a_command_is_a_verb():
    top = Path(zoo.__file__).parent
    started = {path.parent.name for path in top.glob("*/__main__.py")}
    for path in top.rglob("*.py"):
        started |= {*re.findall(r'^main = Verb\("([\w.]+)"\)', path.read_text("utf-8"), re.M)}
    assert set(COMMANDS) == started


@pytest.mark.parametrize("name", ROWS)
def test_rows_name_settings_functions_and_backends(name):
    place = ROWS[name]
    assert place.backends == BACKENDS.get(name, TENSORFLOW)
    for target in (place.settings, place.run):
        module, _, attribute = target.partition(":")
        source = Path(find_spec(module).origin).read_text("utf-8")
        assert re.search(rf"^((class|def) {attribute}\b|{attribute} = )", source, re.M)


@pytest.mark.parametrize("name", ROWS)
def test_help(capsys, name):
    """It names the command, and no file of a checkout, which an installed wheel has not."""
    verb, *rest = name.split()
    words = ["--task", rest[0]] if Verb(verb).by_task else rest
    with pytest.raises(SystemExit) as caught:
        Verb(verb)([*words, "--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    start = " ".join([f"python -m zoo.{verb}", *((COMMANDS[verb].parts and rest) or ())])
    assert printed.startswith(f"usage: {start} ")
    assert "\noptions:\n" in printed
    fields = load(ROWS[name].settings).model_fields
    assert [field for field in fields if field not in printed.lower()] == []
    assert not re.search(r"\b(docs|notebooks|requirements|tests|tpu_configs|zoo)/", printed)


@pytest.mark.parametrize(("verb", "words"), [*product(["", *PARTS], [[], ["-h"], ["--help"]])])
def test_help_lists_every_verb_or_every_part_of_one(run, capsys, verb, words):
    with pytest.raises(SystemExit) as caught:
        Verb(verb)(words) if verb else run(*words)
    assert caught.value.code is None
    program = f"python -m zoo.{verb}" if verb else "lambda-keras"
    rows = COMMANDS[verb].parts if verb else COMMANDS
    head, *lines, end = capsys.readouterr().out.rstrip().splitlines()
    assert (head, end) == (
        f"usage: {program} COMMAND [OPTIONS]",
        f"{program} COMMAND --help shows the options of one.",
    )
    width = max(map(len, rows)) + 2
    assert {f"  {name:{width}}{row.summary}" for name, row in rows.items()} <= {*lines}


def test_a_verb_runs_with_the_other_arguments(run, capsys):
    run("list", "lambda_resnet50", "--format", "markdown")
    assert "| lambda_resnet50 |" in capsys.readouterr().out


BY_TASK = ("train", "evaluate", "predict", "export")
UNKNOWN, NO_TASK = "no such command. Received: ", "no such task. Received: 'clasification' (did y"
WRONG = [
    (["trian"], f"{UNKNOWN}'trian' (did you mean 'train'?)"),
    *(([verb, part[:1] + part[2:]], f"(did you mean {part!r}?)") for verb, part in PARTS.items()),
    *(([verb, ""], f"{UNKNOWN}''") for verb in PARTS),
    *(([verb, "--task", "clasification"], NO_TASK) for verb in BY_TASK),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_unknown_commands_and_tasks_end_with_one_line(run, capsys, arguments, message):
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    error = capsys.readouterr().err
    assert (caught.value.code, error.startswith("error: "), error.count("\n")) == (2, True, 1)
    assert message in error


def test_settings_know_their_command_line():
    settings = commands.parse("zoo.train", ["--output_dir", "a b"])
    assert settings.command == "python -m zoo.train --output_dir 'a b'"
    assert commands.parse("zoo.train", []).command == "python -m zoo.train"


def test_settings_of_python_are_checked_as_those_of_a_command_line(capsys):
    call("list", "classification", {"patterns": ["lambda_resnet50"], "format": "json"})
    assert '"name": "lambda_resnet50"' in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"format: no such choice. Received: 'jsn'"):
        call("list", "classification", {"format": "jsn"})
    with pytest.raises(ValueError, match=r"task: no such task. Received: 'detektion'"):
        call("train", "detektion", {})
    with pytest.raises(ValueError, match=r"task: no such task. Received: \['a'\]"):
        call("train", ["a"], {})  # pyright: ignore[reportArgumentType]
