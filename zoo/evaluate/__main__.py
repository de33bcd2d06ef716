"""Evaluates a network on test images: `python -m zoo.evaluate --run runs/FOLDER`."""

from collections.abc import Sequence

from zoo.cli.run import BACKENDS, run_command
from zoo.config.task import CLASSIFICATION, DETECTION, run_by_task

TASKS = {CLASSIFICATION: "zoo.evaluate.classification", DETECTION: "zoo.evaluate.detection"}


def main(arguments: Sequence[str]) -> None:
    """Evaluates a classifier or a detector."""
    run_by_task(arguments, TASKS)


if __name__ == "__main__":
    run_command(main, BACKENDS[:2])
