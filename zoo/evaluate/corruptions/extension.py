"""Errors on corrupted images as an extension of `zoo.evaluate`."""

from typing import TYPE_CHECKING

from zoo.config import DataConfig
from zoo.evaluate.extension import Extension, Report
from zoo.evaluate.variants import has_all_corruptions

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier
    from zoo.inference.source.base import ClassifierSource


class CorruptionsExtension(Extension):
    """The mean corruption error, of all corruptions and severities."""

    def measure(
        self, source: "ClassifierSource", data: DataConfig, precision: str | None
    ) -> tuple["Classifier", Report] | None:
        from zoo.evaluate.corruptions.errors import measure

        return measure(source, data, precision) if has_all_corruptions(data.name) else None
