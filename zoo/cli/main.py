"""Entry points of commands: `python -m zoo.VERB`, or `lambda-keras VERB`."""

from collections.abc import Mapping, Sequence
from typing import Any

from zoo.backend import use_default_backend
from zoo.cli.commands import COMMANDS, Command
from zoo.cli.run import run_command
from zoo.cli.tasks import TASKS, Place, find_task, load, named_task, options
from zoo.errors import unknown


# Any: settings and results of every command.
class Verb:
    """A verb of the table as a function: takes the arguments, returns the command's result.

    If `module` is `"__main__"`, the command runs at once.
    """

    def __init__(self, name: str, module: str = ""):
        self.program, self.command = f"python -m zoo.{name}", COMMANDS[name]
        self.by_task = any(name in row.commands for row in TASKS.values())
        if module == "__main__":
            self.run()

    def __call__(self, arguments: Sequence[str]) -> Any:
        """Reads the settings and runs the command; raises its errors."""
        return _run(*self.parse(arguments))

    def parse(self, arguments: Sequence[str], task: str | None = None) -> tuple[Place, Any]:
        """Returns the command's place and settings; `task` None: the task that arguments name."""
        program, command, rest = _find(self.program, self.command, arguments)
        if self.by_task:
            place = named_task(task or find_task(options(rest)), command.places)
        else:
            (place,) = command.places.values()
        return place, load(place.settings).from_command_line(rest, program)

    def run(self) -> None:
        """Runs the command with the arguments of this process; its errors are one line."""
        run_command(self)


def main() -> None:
    """Runs the verb that this process's first argument names, with the other arguments."""
    run_command(_lambda_keras)


def call(verb: str, task: str, values: Mapping[str, Any], part: str = "") -> Any:
    """Runs a command of a task with settings by name, or a part of the task; returns its result."""
    place = named_task(task, COMMANDS[verb].places)
    if part:
        place = place._replace(run=TASKS[task].parts[part])
    return _run(place, load(place.settings).from_values(values))


def _lambda_keras(arguments: Sequence[str]) -> Any:
    if arguments and arguments[0] in COMMANDS:
        return Verb(arguments[0])(arguments[1:])
    return _find("lambda-keras", Command("", parts=COMMANDS), arguments)


def _find(program: str, command: Command, arguments: Sequence[str]) -> Any:
    """Finds the part of a command that the first argument names; exits after its `--help`.

    Sub-commands of pydantic-settings would import the settings of every command.
    """
    if not command.parts:
        return program, command, arguments
    name, *others = arguments or ["--help"]
    if name in command.parts:
        return _find(f"{program} {name}", command.parts[name], others)
    if name not in ("-h", "--help"):
        raise ValueError(f"no such command. {unknown(name, command.parts)}")
    width = max(map(len, command.parts)) + 2
    print(f"usage: {program} COMMAND [OPTIONS]\n\ncommands:")
    print(*(f"  {name:{width}}{part.summary}" for name, part in command.parts.items()), sep="\n")
    print(f"\n{program} COMMAND --help shows the options of one.")
    raise SystemExit


def _run(place: Place, settings: Any) -> Any:
    use_default_backend(place.backends)
    return load(place.run)(settings)  # TensorFlow takes seconds to import: --help does without
