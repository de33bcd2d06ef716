"""The settings of a training run; its sections are in modules of their own."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from zoo.cli.settings import AnyPath, Settings
from zoo.config.data import DataConfig
from zoo.config.distillation import DistillationConfig
from zoo.config.model import ModelConfig
from zoo.config.optimizer import OptimizerConfig
from zoo.config.training import TrainingConfig

__all__ = [
    "DataConfig",
    "DistillationConfig",
    "ModelConfig",
    "OptimizerConfig",
    "TrainConfig",
    "TrainingConfig",
]


class TrainConfig(Settings, cli_prog_name="python -m zoo.train"):
    """Trains a model of the zoo and writes a run folder.

    The folder holds config.yaml, checkpoints/ (the state after the last epochs), model.keras,
    model.weights.h5, metrics.json, curves.png, predictions.png and logs/ for TensorBoard. An
    interrupted run goes on when the same command is given again.
    A command line setting wins over --config FILE, and that over the default. 'None' is none.
    """

    config: AnyPath | None = Field(
        default=None,
        exclude=True,
        description="YAML file with these settings, or the name of a configuration of the zoo, "
        "such as lambda_resnet50_image_folder.",
    )
    output_dir: AnyPath = Field(
        default=Path("runs/latest"),
        description="Run folder, local or gs://; several hosts must share it. An unfinished run in "
        "it goes on; a finished one is refused.",
    )
    overwrite: bool = Field(
        default=False,
        exclude=True,
        description="Remove the run in output_dir and start from the beginning.",
    )
    strategy: Literal["auto", "tpu", "mirrored", "multi_worker", "one_device"] = Field(
        default="auto",
        description="Devices; auto: a TPU, else all GPUs (mirrored), else one device. "
        "multi_worker: those of all machines in TF_CONFIG, or on JAX in KERAS_DISTRIBUTION_*.",
    )
    tpu: str | None = Field(
        default=None,
        min_length=1,
        description="TPU name or address, 'local' on a TPU VM; None: TPU_NAME is asked.",
    )
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
        if self.tpu is not None and self.strategy not in ("auto", "tpu"):
            raise ValueError(f"tpu: not used by strategy={self.strategy}. Received: {self.tpu!r}")
        return self
