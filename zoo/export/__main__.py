"""Exports a network for serving: `python -m zoo.export --run runs/FOLDER`."""

from collections.abc import Sequence

from zoo.cli.run import run_command
from zoo.config.task import find_task, task_module


def main(arguments: Sequence[str]) -> None:
    """Exports a classifier or a detector."""
    module = task_module("export", find_task(arguments))
    module.run(module.ExportConfig.from_command_line(arguments))


if __name__ == "__main__":
    run_command(main)
