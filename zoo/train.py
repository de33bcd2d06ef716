"""Trains a model: `python -m zoo.train --config tpu_configs/FILE.yaml`."""

from collections.abc import Sequence

from zoo import cli
from zoo.config import TrainConfig


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then trains.

    Args:
        arguments: Command line arguments without the program's name.
    """
    config = TrainConfig.from_command_line(arguments)
    # TensorFlow takes seconds to import; a wrong setting or --help should not wait for it.
    from zoo import trainer

    trainer.train(config)


if __name__ == "__main__":
    cli.run(main, cli.BACKENDS[:2])
