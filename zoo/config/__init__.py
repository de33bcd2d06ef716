"""Settings of a training run; its sections are in modules of their own."""

from typing import Literal, Self

from pydantic import model_validator

from zoo.config.data import DataConfig
from zoo.config.distillation import DistillationConfig
from zoo.config.model import ModelConfig
from zoo.config.optimizer import OptimizerConfig
from zoo.config.run import RunConfig
from zoo.config.training import TrainingConfig

__all__ = [
    "DataConfig",
    "DistillationConfig",
    "ModelConfig",
    "OptimizerConfig",
    "RunConfig",
    "TrainConfig",
    "TrainingConfig",
]


class TrainConfig(RunConfig, cli_prog_name="python -m zoo.train"):
    """Trains a model of the zoo and writes a run folder.

    The folder holds config.yaml, checkpoints/ (the state after the last epochs), model.keras,
    model.weights.h5, metrics.json, curves.png, predictions.png and logs/ for TensorBoard. The same
    command resumes an interrupted run.
    A command line setting wins over --config FILE, and that over the default. 'None' unsets one.
    --task detection --help shows the settings of detectors.
    """

    task: Literal["classification"] = "classification"
    """Or detection, which has other settings."""
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()
    distillation: DistillationConfig = DistillationConfig()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.optimizer.warmup_epochs >= self.training.epochs:
            raise ValueError(
                "optimizer.warmup_epochs: expected fewer than training.epochs "
                f"({self.training.epochs}). Received: {self.optimizer.warmup_epochs}"
            )
        return self
