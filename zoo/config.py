"""The settings of a training run."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from zoo.cli.model_options import Weights
from zoo.cli.plain_yaml import typed
from zoo.cli.settings import AnyPath, Section, Settings, checked_by
from zoo.registry import find_model

# Arguments of constructors that training gives itself: the loss is that of probabilities, of as
# many classes as the data have.
_DECIDED = {"include_top", "pooling", "classes", "classifier_activation"}
_DECIDED |= {"name", "weights", "adapt_weights", "input_shape", "input_tensor"}

# Settings of some sources of images alone, and as what a source needs one; "" if it does not.
_OF_SOURCES = {
    "dir": {"image_folder": "a folder of images", "tfds": "", "tfrecord": "a folder of shards"},
    "name": {"tfds": "the name of a data set"},
    "classes": {"tfrecord": "the number of classes"},
}


class ModelConfig(Section):
    """Which network to train."""

    name: Annotated[str, checked_by(find_model)] = Field(
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
    weights: Weights | None = Field(
        default=None,
        description="Start from these: imagenet, hf://owner/repo, or a .weights.h5 or .safetensors "
        "file, of any number of classes; None: from random weights.",
    )
    weights_model: Annotated[str, checked_by(find_model)] | None = Field(
        default=None,
        description="Network that the weights are of, if another one (warm start): every layer of "
        "the same name and shapes is taken, the others start from random weights and are named.",
    )
    weights_overrides: dict[str, Any] = Field(
        default={},
        description="Arguments of that network, e.g. --model.weights_overrides placement=CCCC",
    )
    freeze_backbone: bool = Field(
        default=False, description="Train the classifier only, as a first step of fine-tuning."
    )
    batch_norm_momentum: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="Momentum of the moving statistics of every batch normalisation; None: 0.99.",
    )
    synchronized_batch_norm: bool = Field(
        default=False,
        description="Batch statistics over all devices instead of each one's own.",
    )

    @field_validator("overrides", "weights_overrides")
    @classmethod
    def _typed(cls, overrides: dict[str, Any]) -> dict[str, Any]:
        taken = _DECIDED & overrides.keys()
        if taken:
            raise ValueError(
                "expected arguments that the data, the other settings and the loss do not decide. "
                f"Received: {', '.join(sorted(taken))}"
            )
        return typed(overrides)

    @model_validator(mode="after")
    def _weights_are_of_something(self) -> Self:
        if self.weights_model is not None and self.weights is None:
            raise ValueError(f"weights_model={self.weights_model} needs weights. Received: None")
        if self.weights_overrides and self.weights_model is None:
            raise ValueError(
                f"weights_overrides needs weights_model. Received: {self.weights_overrides}"
            )
        return self

    @property
    def size(self) -> int:
        """Height and width of the images in pixels."""
        return self.image_size or find_model(self.name).image_size


class DataConfig(Section):
    """Which images to train and test on."""

    source: Literal["digits", "pathfinder", "image_folder", "tfds", "tfrecord"] = Field(
        default="digits",
        description="digits: scikit-learn's handwritten digits; pathfinder: drawings of paths, of "
        "which one is marked, and asked for its colour; image_folder: JPEG and PNG files; "
        "tfds: a data set of TensorFlow Datasets; tfrecord: shards of tf.train.Example.",
    )
    dir: str | None = Field(
        default=None,
        description="image_folder: folder with train/CLASS/* and val/CLASS/*, or with CLASS/* to "
        "split; tfds: where data sets are prepared, local or gs://; tfrecord: folder of shards.",
    )
    name: str | None = Field(default=None, description="tfds: data set, such as imagenet2012.")
    train_split: str = Field(
        default="train",
        description="tfds: images to train on; train[20shard:] holds 2 % of ImageNet out.",
    )
    test_split: str = Field(
        default="validation", description="tfds: images to test on, such as train[:20shard]."
    )
    classes: int | None = Field(
        default=None,
        ge=2,
        description="tfrecord: number of classes; labels count from 0 or from 1.",
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
        description="Random crops and flips; digits: shifts by up to 1/8 instead; pathfinder: "
        "half of the images upside down instead.",
    )
    randaugment_magnitude: float | None = Field(
        default=None,
        ge=0,
        le=30,
        description="Strength of RandAugment, 10 being its nominal maximum; None: without.",
    )
    randaugment_layers: int = Field(
        default=2, ge=1, le=8, description="Operations of RandAugment per image."
    )
    unreadable: Literal["refuse", "skip"] = Field(
        default="refuse",
        description="Images that cannot be decoded are named; refuse: then the run ends, for an "
        "image_folder before the first step, for tfds and tfrecord when such an image comes; skip: "
        "the run goes on, for an image_folder without them, for tfds and tfrecord with another "
        "image of the batch in their place (training) or without them (test).",
    )
    shuffle_buffer: int = Field(
        default=10_000,
        ge=1,
        description="tfds, tfrecord: undecoded images that are shuffled among each other, besides "
        "the order of the files; takes 1.1 GB of memory per host for ImageNet.",
    )

    @model_validator(mode="after")
    def _fits_source(self) -> Self:
        for name, sources in _OF_SOURCES.items():
            value, needed = getattr(self, name), sources.get(self.source)
            if value is None and needed:
                raise ValueError(f"source={self.source} needs {needed}. Received: {name}=None")
            if value is not None and self.source not in sources:
                allowed = " or ".join(f"source={source}" for source in sources)
                raise ValueError(f"{name} is for {allowed} only. Received: {name}={value}")
        if self.randaugment_magnitude is not None and not self.augment:
            raise ValueError(
                "randaugment_magnitude needs augment=true. "
                f"Received: randaugment_magnitude={self.randaugment_magnitude}, augment=false"
            )
        return self


class OptimizerConfig(Section):
    """How weights are changed; the learning rate warms up linearly, then falls."""

    name: Literal["sgd", "rmsprop", "adam"] = Field(
        default="sgd",
        description="All with momentum, which is beta_1 of adam; rmsprop is for MobileNetV2.",
    )
    learning_rate: float = Field(
        default=0.1,
        gt=0,
        description="Highest rate for 256 images per step; scales with the batch size.",
    )
    momentum: float = Field(default=0.9, ge=0, lt=1, description="Momentum of the optimizer.")
    weight_decay: float = Field(
        default=0,
        ge=0,
        description="L2 in the loss: half of it times the square of every kernel; not on "
        "biases, normalisation or position embeddings.",
    )
    weight_decay_on: Literal["kernels", "all_but_batch_norm"] = Field(
        default="kernels",
        description="all_but_batch_norm: also on biases and position embeddings.",
    )
    warmup_epochs: float = Field(
        default=5, ge=0, description="Epochs from rate 0 to the highest one."
    )
    schedule: Literal["cosine", "exponential"] = Field(
        default="cosine",
        description="After warm-up: cosine to 0 at the end; exponential: steps of decay_rate.",
    )
    decay_rate: float = Field(
        default=0.99, gt=0, le=1, description="exponential: factor of the rate."
    )
    decay_epochs: float = Field(
        default=3, gt=0, description="exponential: epochs between two factors."
    )


class TrainingConfig(Section):
    """How long and how to train."""

    epochs: int = Field(default=90, ge=1, description="Passes over the training images.")
    label_smoothing: float = Field(
        default=0.1, ge=0, lt=1, description="Probability spread evenly over all classes."
    )
    ema: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Decay of the moving averages of weights and batch statistics, which are "
        "evaluated and saved, such as 0.9999; None: without.",
    )
    early_stopping_epochs: int | None = Field(
        default=None,
        ge=1,
        description="End after so many epochs without better test accuracy, and keep the best "
        "weights; None: train all epochs.",
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
    seed: int = Field(
        default=0, ge=0, lt=2**32, description="Seed of weights, shuffling and augmentation."
    )


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
        description="YAML file with these settings, e.g. from tpu_configs/.",
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
