"""Exports a network for serving: `python -m zoo.export --run runs/FOLDER`."""

from collections.abc import Sequence

from zoo.cli.run import run_command
from zoo.config.task import CLASSIFICATION, DETECTION, run_by_task

TASKS = {CLASSIFICATION: "zoo.export.classification", DETECTION: "zoo.export.detection"}


def main(arguments: Sequence[str]) -> None:
    """Exports a classifier or a detector."""
    run_by_task(arguments, TASKS)


if __name__ == "__main__":
    run_command(main)
