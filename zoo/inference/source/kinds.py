"""Choice among the sources of a classifier."""

from typing import Any

from zoo.inference.source.base import ClassifierSource
from zoo.inference.source.published import Published
from zoo.inference.source.run import Run
from zoo.inference.source.weights import Weights


def choose(settings: Any) -> ClassifierSource:
    """Returns the source that the settings of a command name."""
    size = getattr(settings, "image_size", None)
    if settings.run is not None:
        return Run(settings.run, size)
    if settings.weights is None:
        return Published(settings.model, size)
    optional = ("class_names", "image_size", "overrides")
    given = {name: getattr(settings, name) for name in optional if hasattr(settings, name)}
    return Weights(settings.model, str(settings.weights), **given)
