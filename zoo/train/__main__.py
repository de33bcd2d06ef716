"""Trains a network: `python -m zoo.train --config NAME`."""

from collections.abc import Sequence
from importlib import import_module

from zoo.cli.run import BACKENDS, run_command, use_default_backend
from zoo.config import TrainConfig
from zoo.config.detection import DetectionConfig
from zoo.config.task import CLASSIFICATION, DETECTION, find_task, row_of_task

# By task: settings, the module whose `train` takes them, and the backends it runs on.
TASKS = {
    CLASSIFICATION: (TrainConfig, "zoo.train.classification", BACKENDS[:2]),
    DETECTION: (DetectionConfig, "zoo.train.detection", BACKENDS[:1]),
}


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then trains."""
    settings, module, backends = row_of_task(find_task(arguments), TASKS)
    config = settings.from_command_line(arguments)
    use_default_backend(backends)
    # TensorFlow takes seconds to import; a wrong setting or --help should not wait for it.
    import_module(module).train(config)


if __name__ == "__main__":
    run_command(main, BACKENDS[:2])
