"""Interface of extensions of the evaluation of classifiers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from zoo.config import DataConfig
from zoo.config.model_options import ModelOptions

if TYPE_CHECKING:
    from zoo.evaluate.metrics import Evaluation
    from zoo.inference.classifier import Classifier
    from zoo.inference.source.base import ClassifierSource


class EvaluateOptions(ModelOptions):
    """Settings of every evaluation of a classifier, to which extensions add theirs."""

    averaged: bool = True
    """Evaluate EMA weights, if --run has them; false: the raw weights."""


class Report(Protocol):
    """Results that can be printed and written."""

    def print_tables(self, title: str) -> None: ...
    def write(self, title: str, settings: Mapping[str, Any], folder: Path) -> None: ...


class Addition(Protocol):
    """Results that an extension adds to an evaluation."""

    figures: ClassVar[Sequence[str]]  # names of all files that `draw` may write

    def print_tables(self) -> None: ...
    def draw(self, title: str, folder: Path) -> None: ...
    def as_json(self) -> Any: ...


class Extension:
    """Base class of extensions; `extensions` in `zoo.cli.tasks.TASKS` names the subclasses."""

    settings: type[EvaluateOptions] | None = None  # base of the settings of the command

    def measure(
        self, source: "ClassifierSource", data: DataConfig, precision: str | None
    ) -> tuple["Classifier", Report] | None:
        """Replaces the ordinary evaluation of some data; returns None for all other data."""
        return None

    def needs_outputs(self, config: Any) -> bool:  # Any: its own settings are among others
        """Returns whether `add` needs the log probabilities of all images, by the settings."""
        return False

    def add(self, result: "Evaluation") -> Addition | None:
        """Returns additions to the results of the ordinary evaluation, or None."""
        return None
