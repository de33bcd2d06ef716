"""Trains a network: `python -m zoo.train --config NAME`."""

from collections.abc import Sequence

from zoo.cli.run import BACKENDS, run_command, use_default_backend
from zoo.config.task import TRAINING, find_task, row_of_task, task_module


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then trains."""
    task = find_task(arguments)
    settings, backends = row_of_task(task, TRAINING)
    config = settings.from_command_line(arguments)
    use_default_backend(backends)
    # TensorFlow takes seconds to import; a wrong setting or --help should not wait for it.
    task_module("train", task).train(config)


if __name__ == "__main__":
    run_command(main, BACKENDS[:2])
