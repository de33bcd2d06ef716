"""Table of the sources of a classifier, and the choice among them."""

from typing import Any

from zoo.inference.source import base
from zoo.inference.source.base import ClassifierSource
from zoo.inference.source.published import Published
from zoo.inference.source.run import Run
from zoo.inference.source.weights import Weights

KINDS: tuple[type[ClassifierSource], ...] = (Run, Weights, Published)


def choose(settings: Any) -> ClassifierSource:
    """Returns the source that the settings of a command name."""
    return base.choose(settings, KINDS)
