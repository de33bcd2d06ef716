"""Trains a detector: `python -m zoo.detection.train --config tpu_configs/FILE_coco.yaml`."""

from collections.abc import Sequence

from zoo.cli.run import run_command
from zoo.detection.config import DetectionConfig


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then trains."""
    config = DetectionConfig.from_command_line(arguments)
    # TensorFlow takes seconds to import; a wrong setting or --help should not wait for it.
    from zoo.detection import loop

    loop.train(config)


if __name__ == "__main__":
    run_command(main)
