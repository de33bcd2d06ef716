"""Evaluates a network on test images: `python -m zoo.evaluate --run runs/FOLDER`."""

from collections.abc import Sequence

from zoo.cli.run import BACKENDS, run_command
from zoo.config.task import find_task, task_module


def main(arguments: Sequence[str]) -> None:
    """Evaluates a classifier or a detector."""
    task_module("evaluate", find_task(arguments)).main(arguments)


if __name__ == "__main__":
    run_command(main, BACKENDS[:2])
