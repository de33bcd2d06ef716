"""Runs a benchmark command: `python -m zoo.benchmark layer --help`."""

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from zoo.cli.run import BACKENDS, run_command
from zoo.errors import unknown

# Each command is a module with `Config` and `run`, imported on demand.
COMMANDS = {
    "layer": "time and memory of every implementation of the layer",
    "attention": "lambda layers and attention: time, memory, growth (Table 4)",
    "steps": "causal lambda layers step by step, the time of the next position",
    "models": "whole networks and those of keras.applications and timm",
    "serving": "latency of Keras and of every exported format",
    "accelerator": "layers and networks on a GPU or TPU, within minutes",
}


def command_module(name: str) -> ModuleType:
    """Imports the module of a command."""
    if name not in COMMANDS:
        raise ValueError(f"no such command. {unknown(name, COMMANDS)}")
    return import_module(f"zoo.benchmark.{name}")


def main(arguments: Sequence[str]) -> None:
    """Runs the command that the first argument names, with the other arguments."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m zoo.benchmark COMMAND [OPTIONS]\n\ncommands:")
        print(*(f"  {name:13}{summary}" for name, summary in COMMANDS.items()), sep="\n")
        print("\npython -m zoo.benchmark COMMAND --help shows the options of one.")
        return
    command = command_module(arguments[0])
    command.run(command.Config.from_command_line(arguments[1:]), arguments[1:])


if __name__ == "__main__":
    run_command(main, backends=BACKENDS)
