"""Trains a model: `python -m zoo.train --config NAME`."""

from collections.abc import Sequence

from zoo.cli.run import BACKENDS, run_command
from zoo.config import TrainConfig


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then trains."""
    config = TrainConfig.from_command_line(arguments)
    # TensorFlow takes seconds to import; a wrong setting or --help should not wait for it.
    from zoo.train import loop

    loop.train(config)


if __name__ == "__main__":
    run_command(main, BACKENDS[:2])
