"""Finds the command: `python -m zoo.benchmark layer --help`."""

from collections.abc import Sequence
from importlib import import_module

from zoo.cli.run import BACKENDS, run_command
from zoo.errors import unknown

# Name: (module with `Config` and `run`, what it measures); imported when it is asked for.
COMMANDS = {
    "data": ("zoo.benchmark.data", "decoding, cropping and RandAugment, in images/s per core"),
    "layer": ("zoo.benchmark.layer", "time and memory of every implementation of the layer"),
    "models": ("zoo.benchmark.models", "whole networks against those of keras.applications"),
    "fit": ("zoo.benchmark.fit", "fit against a bare tf.function of the same training steps"),
    "serving": ("zoo.benchmark.serving", "latency of Keras and of every exported format"),
    "tpu-compile": ("zoo.benchmark.tpu_compile", "layers and training steps compiled for TPU v5e"),
}


def main(arguments: Sequence[str]) -> None:
    """Runs the command that the first argument names with the other ones.

    Args:
        arguments: Command line arguments without the program's name.

    Raises:
        ValueError: If there is no such command, or one of its settings is wrong.
        ImportError: If a package that it needs is not installed.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m zoo.benchmark COMMAND [OPTIONS]\n\ncommands:")
        for name, (_, summary) in COMMANDS.items():
            print(f"  {name:13}{summary}")
        print("\npython -m zoo.benchmark COMMAND --help shows the options of one.")
        return
    if arguments[0] not in COMMANDS:
        raise ValueError(f"no such command. {unknown(arguments[0], COMMANDS)}")
    command = import_module(COMMANDS[arguments[0]][0])
    command.run(command.Config.from_command_line(arguments[1:]), arguments[1:])


if __name__ == "__main__":
    run_command(main, backends=BACKENDS)
