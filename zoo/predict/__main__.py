"""Runs a network on images: `python -m zoo.predict --run runs/FOLDER photo.jpg`."""

from collections.abc import Sequence

from zoo.cli.run import run_command
from zoo.config.task import CLASSIFICATION, DETECTION, run_by_task

TASKS = {CLASSIFICATION: "zoo.predict.classification", DETECTION: "zoo.predict.detection"}


def main(arguments: Sequence[str]) -> None:
    """Classifies images, or detects objects in them."""
    run_by_task(arguments, TASKS)


if __name__ == "__main__":
    run_command(main)
