"""Settings of training a detector."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from zoo.cli.settings import Section
from zoo.config import NetworkName, Overrides, RunConfig
from zoo.config.model_options import Weights
from zoo.errors import require
from zoo.fields import (
    LARGEST,
    AnyPath,
    BatchSize,
    Count,
    TypedValues,
    checked_by,
)

STRIDE = 64  # of the coarsest feature map; images are multiples of it


def _check_fractions(parts: list[float]) -> None:
    if sorted(set(parts)) != parts or not all(0 < part < 1 for part in parts):
        raise ValueError(f"expected ascending numbers between 0 and 1. Received: {parts}")


class DetectorConfig(Section):
    """Backbone, and fields of the Model Garden's Mask R-CNN."""

    name: NetworkName = "lambda_resnet50"
    """Backbone, by its name (see python -m zoo.list)."""
    image_size: int = Field(default=1024, ge=STRIDE, le=2048, multiple_of=STRIDE)
    """Height and width in pixels; images are resized to fit, and padded."""
    overrides: Overrides = Field(default={})
    """Other constructor arguments, e.g. --model.overrides scope=7"""
    weights: Weights | None = None
    """Initial weights of a classifier: imagenet, hf://OWNER/NAME, the folder of a run or of a
    published network, or a .weights.h5 or .safetensors file; None: from random weights."""
    freeze_backbone: bool = False
    """Train pyramid and heads only."""
    batch_norm_momentum: float = Field(default=0.997, ge=0, lt=1)
    """Momentum of the moving statistics of every batch normalization."""
    synchronized_batch_norm: bool = True
    """Compute batch statistics over all devices, not over each one alone."""
    heads: TypedValues = Field(default={})
    """Other values of the Model Garden's fields, official.vision.configs.maskrcnn.MaskRCNN, in YAML
    such as {decoder: {fpn: {num_filters: 64}}}; include_mask: false finds boxes alone (Faster
    R-CNN). They replace the values of --config FILE."""


class CocoConfig(Section):
    """Training and test images."""

    dir: AnyPath = Path("data/coco")
    """Folder that zoo.detection.convert has written, local or gs://."""
    batch_size: BatchSize = 256
    """Images per step, over all devices."""
    test_batch_size: BatchSize = 8
    """Images per step of evaluation, over all devices."""
    scale_min: float = Field(default=0.8, gt=0, le=10)
    """Smallest factor that training images are resized by."""
    scale_max: float = Field(default=1.25, gt=0, le=10)
    """Largest factor that training images are resized by."""
    shuffle_buffer: Count = 10_000
    """Size of the shuffle buffer of undecoded images."""

    @model_validator(mode="after")
    def _range(self) -> Self:
        expected = f"scale_min: expected at most scale_max ({self.scale_max})"
        require(self.scale_min <= self.scale_max, expected, self.scale_min)
        return self


class ScheduleConfig(Section):
    """SGD with momentum; the learning rate warms up, then falls in steps."""

    learning_rate: float = Field(default=0.32, gt=0, le=1000)
    """Highest rate for 256 images per step; scales with the batch size."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Momentum of the optimizer."""
    weight_decay: float = Field(default=4e-5, ge=0)
    """L2 regularization: weight_decay / 2 times the sum of squares of all kernels in the loss."""
    warmup_steps: int = Field(default=1000, ge=0, le=LARGEST)
    """Steps of linear warm-up from rate 0."""
    decay_at: Annotated[list[float], checked_by(_check_fractions)] = Field(
        default=[0.9, 0.95, 0.975]
    )
    """Fractions of the training after which the learning rate is divided by 10."""


class StepsConfig(Section):
    """Length, precision and seed of training."""

    delete_checkpoint: ClassVar = False  # the weights of a detector are in its checkpoint

    steps: Count = 22_500
    """Steps of training."""
    evaluation_steps: Count = 5_000
    """Steps between evaluations on the test images."""
    checkpoint_steps: Count = 1_000
    """Steps between checkpoints."""
    steps_per_execution: Count = 100
    """Steps per call of the compiled function, after which losses are shown."""
    precision: Literal["float32", "mixed_bfloat16", "auto"] = "float32"
    """Keras dtype policy: bfloat16 suits TPUs and CPUs with instructions for it, and auto takes it
    there, else float32."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of weights and of the order of images."""


class DetectionConfig(RunConfig):
    """Trains a Mask R-CNN with a backbone of the zoo, and writes a run folder.

    Data with boxes alone train a Faster R-CNN.

    Task, losses, heads, input pipeline and training loop come from TensorFlow's Model Garden.
    The folder holds config.yaml, checkpoints/ (with the logs for TensorBoard), metrics.json and
    predictions.png. The same command resumes an interrupted run from its last checkpoint, with the
    same weights, optimizer, step and order of images; flips, scales and crops are random.
    A command line setting overrides --config FILE, which overrides the default. 'None' unsets one.
    """

    task: Literal["detection"] = "detection"
    model: DetectorConfig = DetectorConfig()
    data: CocoConfig = CocoConfig()
    optimizer: ScheduleConfig = ScheduleConfig()
    training: StepsConfig = StepsConfig()

    def longer(self) -> str:
        return "a longer run of a detector starts anew, with more --training.steps"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        require(
            self.optimizer.warmup_steps < self.training.steps,
            f"optimizer.warmup_steps: expected fewer than training.steps ({self.training.steps})",
            self.optimizer.warmup_steps,
        )
        return self
