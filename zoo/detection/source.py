"""Source of the network that a command names, a classifier or a detector."""

from typing import Any

from zoo.config.task import DETECTION, network_task


def choose_source(settings: Any) -> Any:
    """Returns the source of the network that `run`, `model` and maybe `weights` name."""
    task = network_task(settings.run, settings.model)
    if task == DETECTION:
        from zoo.detection.detector import choose
    else:
        from zoo.inference.source.kinds import choose
    return choose(settings)
