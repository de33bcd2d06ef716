"""The settings of a training run."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from zoo.registry import find_model, typed
from zoo.settings import Section, Settings


class ModelConfig(Section):
    """Which network to train."""

    name: str = Field(
        default="lambda_resnet14", description="Model, by its name in zoo/registry.py."
    )
    image_size: int | None = Field(
        default=None,
        ge=8,
        le=2048,
        description="Height and width in pixels; None: the model's own.",
    )
    overrides: dict[str, Any] = Field(
        default={},
        description="Other constructor arguments, e.g. --model.overrides dropout_rate=0.2",
    )
    weights: Path | None = Field(
        default=None, description="Start from this .weights.h5 file; None: from random weights."
    )

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        find_model(name)
        return name

    @field_validator("overrides")
    @classmethod
    def _typed(cls, overrides: dict[str, Any]) -> dict[str, Any]:
        taken = {"classes", "weights", "input_shape"} & overrides.keys()
        if taken:
            raise ValueError(f"the data and the other settings decide these: {sorted(taken)}")
        return typed(overrides)

    @field_validator("weights")
    @classmethod
    def _weights_file(cls, weights: Path | None) -> Path | None:
        if weights is not None and not (weights.is_file() and weights.name.endswith(".weights.h5")):
            raise ValueError(f"expected an existing .weights.h5 file. Received: {str(weights)!r}")
        return weights

    @property
    def size(self) -> int:
        """Height and width of the images in pixels."""
        return self.image_size or find_model(self.name).image_size


class DataConfig(Section):
    """Which images to train and test on."""

    source: Literal["digits", "image_folder"] = Field(
        default="digits",
        description="digits: scikit-learn's handwritten digits; image_folder: JPEG and PNG files.",
    )
    dir: Path | None = Field(
        default=None,
        description="Folder with train/CLASS/* and val/CLASS/*, or with CLASS/* to split.",
    )
    test_fraction: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="Held-out part of a folder that has no train/ and val/.",
    )
    split_seed: int = Field(
        default=0, ge=0, description="Which images of such a folder are held out."
    )
    batch_size: int = Field(default=64, ge=1, description="Images per step, over all devices.")
    augment: bool = Field(
        default=True,
        description="Random crops and flips; digits: shifts by up to 1/8 instead.",
    )

    @model_validator(mode="after")
    def _dir_fits_source(self) -> Self:
        if self.source == "image_folder" and self.dir is None:
            raise ValueError("source=image_folder needs a folder of images. Received: dir=None")
        if self.source == "digits" and self.dir is not None:
            raise ValueError(f"dir is for source=image_folder only. Received: dir={self.dir}")
        return self


class OptimizerConfig(Section):
    """SGD with momentum; the learning rate warms up linearly, then falls as a cosine to 0."""

    learning_rate: float = Field(
        default=0.1,
        gt=0,
        description="Highest rate for 256 images per step; scales with the batch size.",
    )
    momentum: float = Field(default=0.9, ge=0, lt=1, description="Momentum of SGD.")
    warmup_epochs: float = Field(
        default=5, ge=0, description="Epochs from rate 0 to the highest one."
    )


class TrainingConfig(Section):
    """How long and how to train."""

    epochs: int = Field(default=90, ge=1, description="Passes over the training images.")
    label_smoothing: float = Field(
        default=0.1, ge=0, lt=1, description="Probability spread evenly over all classes."
    )
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = Field(
        default="float32", description="Keras dtype policy: bfloat16 suits TPUs, float16 GPUs."
    )
    steps_per_execution: int = Field(
        default=1, ge=1, description="Steps per call of the compiled function."
    )
    checkpoint_steps: int | None = Field(
        default=None,
        ge=1,
        description="Steps between checkpoints within an epoch; None: after every epoch only.",
    )
    jit_compile: bool = Field(default=False, description="Compile with XLA; one device only.")
    seed: int = Field(default=0, ge=0, description="Seed of weights, shuffling and augmentation.")


class TrainConfig(Settings):
    """Trains a model of the zoo and writes a run folder.

    The folder holds config.yaml, checkpoints/ (the state after the last epochs), model.keras,
    model.weights.h5, metrics.json, curves.png, predictions.png and logs/ for TensorBoard. An
    interrupted run goes on when the same command is given again.
    A command line setting wins over --config FILE, and that over the default. 'null' is None.
    """

    model_config = SettingsConfigDict(cli_prog_name="python -m zoo.train")

    config: Path | None = Field(
        default=None,
        exclude=True,
        description="YAML file with these settings, e.g. from tpu_configs/.",
    )
    output_dir: Path = Field(
        default=Path("runs/latest"),
        description="Run folder. An unfinished run in it goes on; a finished one is refused.",
    )
    overwrite: bool = Field(
        default=False,
        exclude=True,
        description="Remove the run in output_dir and start from the beginning.",
    )
    strategy: Literal["auto", "tpu", "mirrored", "one_device"] = Field(
        default="auto",
        description="Devices; auto: a TPU, else all GPUs (mirrored), else one device.",
    )
    tpu: str | None = Field(
        default=None,
        description="TPU name or address, 'local' on a TPU VM; None: TPU_NAME is asked.",
    )
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()

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
