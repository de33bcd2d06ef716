"""Calibration as an extension of `zoo.evaluate`, with its setting."""

from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from zoo.evaluate.extension import Addition, EvaluateOptions, Extension
from zoo.evaluate.variants import REAL, dataset_of, has_all_corruptions

if TYPE_CHECKING:
    from zoo.config import DataConfig
    from zoo.evaluate.metrics import Evaluation


class CalibrateOptions(EvaluateOptions):
    """The setting of calibration."""

    calibrate: bool = False
    """Fit a temperature, by which logits are divided, to a fixed random half of the test images,
    and print its effect on the other half."""
    if TYPE_CHECKING:
        data: DataConfig  # of the command

    @model_validator(mode="after")
    def _one_label_to_calibrate(self) -> Self:
        name = self.data.name
        if self.calibrate and (dataset_of(name) == REAL or has_all_corruptions(name)):
            raise ValueError(
                "calibrate: expected one set of images with one label each, such as imagenet2012. "
                f"Received: data.name={name}"
            )
        return self


class CalibrationExtension(Extension):
    """Reliability diagrams, and with `calibrate` a fitted temperature."""

    settings = CalibrateOptions

    def needs_outputs(self, config: Any) -> bool:
        return config.calibrate

    def add(self, result: "Evaluation") -> Addition:
        from zoo.evaluate.calibration.fit import calibrate
        from zoo.evaluate.calibration.report import Reliability

        logs = result.log_probabilities
        return Reliability(result.scores, None if logs is None else calibrate(logs, result.labels))
