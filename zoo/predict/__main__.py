"""Runs a network on images: `python -m zoo.predict --run runs/FOLDER photo.jpg`."""

from collections.abc import Sequence

from zoo.cli.run import run_command
from zoo.config.task import find_task, task_module


def main(arguments: Sequence[str]) -> None:
    """Classifies images, or detects objects in them."""
    task_module("predict", find_task(arguments)).main(arguments)


if __name__ == "__main__":
    run_command(main)
