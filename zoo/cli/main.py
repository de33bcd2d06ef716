"""Start of commands: `python -m zoo.VERB`, or `lambda-keras VERB`."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from zoo.cli.commands import CLASSIFICATION, COMMANDS, Command, Place
from zoo.cli.run import BACKENDS, run_command, use_default_backend
from zoo.errors import unknown


class Verb:
    """A verb of the table, as a function of its arguments that returns what the command does."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, arguments: Sequence[str]) -> Any:
        """Reads the settings and runs the command; raises its errors."""
        return _start(f"python -m zoo.{self.name}", COMMANDS[self.name], arguments)

    def run(self) -> None:
        """Runs the command with the arguments of this process; its errors are one line."""
        run_command(self, BACKENDS)


def main() -> None:
    """Runs the verb of the first argument of this process with the other arguments."""
    run_command(_lambda_keras, BACKENDS)


def find(verb: str, task: str = CLASSIFICATION) -> Place:
    """Returns where a command is for a task; an unknown task is refused."""
    places = COMMANDS[verb].places
    if task not in places:
        raise ValueError(f"task: no such task. {unknown(task, places)}")
    return places[task]


def call(verb: str, task: str, values: Mapping[str, Any]) -> Any:
    """Runs a command of a task with settings by name, and returns what it does."""
    place = find(verb, task)
    settings = load(place.settings).from_values(values)
    use_default_backend(place.backends)
    return load(place.run)(settings)


def load(name: str) -> Any:
    """Imports `MODULE:NAME`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def _lambda_keras(arguments: Sequence[str]) -> Any:
    if arguments and arguments[0] in COMMANDS:
        return Verb(arguments[0])(arguments[1:])
    return _start("lambda-keras", Command("", parts=COMMANDS), arguments)


def _start(program: str, command: Command, arguments: Sequence[str]) -> Any:
    if command.parts:
        name, *others = arguments or ["--help"]
        if name in command.parts:
            return _start(f"{program} {name}", command.parts[name], others)
        if name not in ("-h", "--help"):
            raise ValueError(f"no such command. {unknown(name, command.parts)}")
        print(f"usage: {program} COMMAND [OPTIONS]\n\ncommands:")
        width = max(map(len, command.parts)) + 2
        print(*(f"  {name:{width}}{one.summary}" for name, one in command.parts.items()), sep="\n")
        print(f"\n{program} COMMAND --help shows the options of one.")
        return None
    place = command.places[CLASSIFICATION]
    if len(command.places) > 1:
        from zoo.cli.task import find_task

        place = find(program.removeprefix("python -m zoo."), find_task(arguments))
    settings = load(place.settings).from_command_line(arguments, program)
    use_default_backend(place.backends)
    # TensorFlow takes seconds to import; a wrong setting or --help does not wait for it.
    return load(place.run)(settings)
