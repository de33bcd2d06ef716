"""Settings of every run, and of classifiers."""

import math
import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, model_validator

from zoo.cli.settings import Settings
from zoo.cli.tasks import TASKS
from zoo.config.model_options import Weights
from zoo.config.needs import Dependent, needs, only_for
from zoo.errors import refusal, require
from zoo.fields import (
    LARGEST,
    AnyPath,
    BatchSize,
    Count,
    ImageSize,
    TypedValues,
    checked_by,
    one_of,
)
from zoo.files import location
from zoo.registry import find_model

# Constructor arguments that training decides: it needs a classifier of the data's classes.
_DECIDED = {"include_top", "pooling", "classes", "classifier_activation", "batch_norm_momentum"}
_DECIDED |= {"name", "weights", "adapt_weights", "input_shape", "input_tensor"}
_DECOUPLED = ("adamw", "lamb", "lion")  # optimizers with decoupled weight decay
_FOR_DECOUPLED = only_for("name", *_DECOUPLED)
_FOR_EXPONENTIAL = only_for("schedule", "exponential")
_WITH_DIR = needs("dir", "dir=None")
AUGMENTATIONS = (
    "shift",
    "randaugment_magnitude",
    "color_jitter",
    "random_erasing",
    "mixup",
    "cutmix",
)


def _check_overrides(overrides: dict[str, Any]) -> None:
    if taken := _DECIDED & overrides.keys():
        expected = "expected arguments that the data, the other settings and the loss do not decide"
        raise refusal(expected, ", ".join(sorted(taken)))


_OTHER_TASKS = "; ".join(
    f"--task {name} --help shows its settings" for name in TASKS if name != "classification"
)
NetworkName = Annotated[str, checked_by(find_model)]
Overrides = Annotated[TypedValues, checked_by(_check_overrides)]


class RunConfig(Settings):
    """The run folder and the devices."""

    config: AnyPath | None = Field(default=None, exclude=True)
    """YAML file with these settings, or the name of a configuration of the zoo, such as
    lambda_resnet50_image_folder."""
    output_dir: AnyPath = Path("runs/latest")
    """Run folder, local or gs://; an unfinished run in it is resumed, a finished one refused."""
    overwrite: bool = Field(default=False, exclude=True)
    """Remove the run in output_dir and start from the beginning."""
    strategy: Literal["auto", "tpu", "mirrored", "multi_worker", "one_device"] = "auto"
    """Devices; auto: a TPU, else all GPUs (mirrored), else one device. multi_worker: the devices of
    all machines in TF_CONFIG, or on JAX in KERAS_DISTRIBUTION_*."""
    tpu: str | None = Field(default=None, min_length=1)
    """TPU name or address, 'local' on a TPU VM; None: the environment variable TPU_NAME."""

    @model_validator(mode="after")
    def _tpu_is_used(self) -> Self:
        if self.tpu is not None and self.strategy not in ("auto", "tpu"):
            raise ValueError(f"tpu: not used by strategy={self.strategy}. Received: {self.tpu!r}")
        return self

    @abstractmethod
    def longer(self) -> str:
        """Returns the advice for training longer than the finished run in `output_dir`."""


class ModelConfig(Dependent):
    """The network to train."""

    name: NetworkName = "lambda_resnet14"
    """Model, by its name: see python -m zoo.list."""
    image_size: ImageSize | None = None
    """Height and width in pixels; None: the model's own."""
    overrides: Overrides = Field(default={})
    """Other constructor arguments, e.g. --model.overrides dropout_rate=0.2"""
    weights: Weights | None = None
    """Initial weights, of any number of classes: imagenet, hf://OWNER/NAME, the folder of a run or
    of a published network, or a .weights.h5 or .safetensors file; None: from random weights."""
    weights_model: Annotated[NetworkName | None, needs("weights", "None", "{name}={value}")] = None
    """Network of the weights, if another one (warm start): layers of the same name and shapes get
    its weights; the others are named, and start from random weights."""
    weights_overrides: Annotated[Overrides, needs("weights_model", "{value}")] = Field(default={})
    """Constructor arguments of that network, e.g. --model.weights_overrides placement=CCCC"""
    freeze_backbone: bool = False
    """Train the classifier only, as a first step of fine-tuning."""
    freeze_up_to: Literal["stem", "c2", "c3", "c4", "c5"] | None = None
    """Freeze weights and batch statistics up to the end of this stage; None: train all."""
    batch_norm_momentum: float | None = Field(default=0.99, ge=0, lt=1)
    """Momentum of every batch normalization's moving statistics; None: the constructor's, 0.9."""
    synchronized_batch_norm: bool = False
    """Compute batch statistics over all devices, not over each one alone."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        expected = "freeze_backbone freezes all stages"
        received = f"freeze_backbone=true, freeze_up_to={self.freeze_up_to}"
        require(not self.freeze_backbone or self.freeze_up_to is None, expected, received)
        return self

    @property
    def size(self) -> int:
        """Height and width of the images in pixels."""
        return self.image_size or find_model(self.name).image_size


class SourceRow(NamedTuple):
    """A data source; `zoo.data.sources.kinds` has its class by the same name."""

    purpose: str  # images that it reads
    # Settings that only some sources have; required ones have a text, which messages use.
    settings: Mapping[str, str] = {}


SOURCES = {
    "digits": SourceRow("scikit-learn's handwritten digits", {"class_weights": ""}),
    "image_folder": SourceRow("image files", {"dir": "a folder of images", "class_weights": ""}),
    "tfds": SourceRow(
        "a data set of TensorFlow Datasets", {"dir": "", "name": "the name of a data set"}
    ),
    "tfrecord": SourceRow(
        "shards of tf.train.Example",
        {"dir": "a folder of shards", "classes": "the number of classes"},
    ),
}


class PseudoConfig(Dependent):
    """Pseudo-labeled images in every training batch, in addition to `batch_size` labeled ones."""

    dir: AnyPath | None = None
    """Folder of selected pseudo-labels, local or gs://; None: labeled images alone."""
    ratio: Annotated[float, _WITH_DIR] = Field(default=3, gt=0, le=1000)
    """Pseudo-labeled images for each labeled one. The loss is the mean over the labeled images
    plus this times the mean over the others."""
    labels: Annotated[Literal["soft", "hard"], _WITH_DIR] = "soft"
    """soft: the teacher's probabilities; hard: its most probable class."""
    temperature: Annotated[float, _WITH_DIR, needs("labels=soft", "{name}={value:g}")] = Field(
        default=1, gt=0, le=1000
    )
    """soft: divides the teacher's log-probabilities."""


class DataConfig(Dependent):
    """Training and test images."""

    source: Annotated[str, one_of("source", SOURCES)] = Field(
        default="digits",
        description="; ".join(f"{name}: {row.purpose}" for name, row in SOURCES.items()) + ".",
    )
    dir: Annotated[str, checked_by(location), AfterValidator(os.path.expanduser)] | None = None
    """image_folder: folder with train/CLASS/* and val/CLASS/*, or with CLASS/* to split; tfds:
    where data sets are prepared, local or gs://; tfrecord: folder of shards."""
    name: str | None = None
    """tfds: data set, such as imagenet2012."""
    train_split: str = "train"
    """tfds: images to train on; train[20shard:] holds 2 % of ImageNet out."""
    test_split: str = "validation"
    """tfds: images to test on, such as train[:20shard]; image_folder: validation, test or train, in
    zoo.evaluate also all, for a folder without splits."""
    classes: int | None = Field(default=None, ge=2, le=LARGEST)
    """tfrecord: number of classes; labels count from 0 or from 1."""
    test_fraction: float = Field(default=0.2, gt=0, lt=1)
    """Held-out fraction of a folder that has no train/ and val/."""
    split_seed: int = Field(default=0, ge=0, lt=2**63)
    """Seed of the choice of these held-out images."""
    batch_size: BatchSize = 64
    """Images per step, over all devices."""
    resize: Literal["crop", "pad", "squash"] = "crop"
    """Way from an image to a square in tests, predictions and exports. crop: the center, without
    the border; pad: the whole image with black borders; squash: the whole image, distorted.
    Training takes random windows of that square, with crop of the image itself."""
    augment: bool = True
    """Random crops and flips; digits: shifts by up to 1/8 instead."""
    shift: float | None = Field(default=None, gt=0, le=0.5)
    """Random shifts, with black borders, by up to this fraction instead of crops, such as 0.125 for
    images of about 32 pixels; None: crops."""
    randaugment_magnitude: float | None = Field(default=None, ge=0, le=30)
    """Strength of RandAugment, 10 being its nominal maximum; None: without."""
    randaugment_layers: Annotated[int, needs("randaugment_magnitude", "{name}={value}")] = Field(
        default=2, ge=1, le=8
    )
    """Operations of RandAugment per image."""
    color_jitter: float | None = Field(default=None, gt=0, le=1)
    """Change brightness, contrast, saturation by up to this fraction, such as 0.4; None: not."""
    random_erasing: float | None = Field(default=None, gt=0, le=1)
    """Fraction of the images in which noise replaces a window, such as 0.25; None: without."""
    mixup: float | None = Field(default=None, gt=0, le=10)
    """Alpha of MixUp, such as 0.2: weighted sums of two images of a batch, and of their labels;
    None: without."""
    cutmix: float | None = Field(default=None, gt=0, le=10)
    """Alpha of CutMix, such as 1: a window of an image is replaced by the window of another one;
    None: without. With MixUp, too, every batch has one of the two at random."""
    class_weights: Literal["balanced"] | None = None
    """digits, image_folder; balanced: all classes have the same weight in the loss, however many
    images they have; None: all images have the same weight."""
    unreadable: Literal["refuse", "skip"] = "refuse"
    """Images that cannot be decoded are named. refuse: the run ends, for image_folder before the
    first step, for tfds and tfrecord when the image is read. skip: image_folder leaves them out;
    tfds and tfrecord replace them by another image of the batch in training, and leave them out in
    tests."""
    cache_gb: float | None = Field(default=None, ge=0)
    """Images of one size are decoded once and kept in memory as uint8, if the images of a split
    take up to this many GB; None: a sixteenth of the memory; 0: none. JPEG files of which training
    decodes windows are not kept."""
    pseudo: PseudoConfig = PseudoConfig()
    shuffle_buffer: Count = 10_000
    """tfds, tfrecord: undecoded images in memory for shuffling, in addition to the order of the
    files; one half is used while the next one is read. Takes 1.1 GB for ImageNet on all hosts."""

    @model_validator(mode="after")
    def _fits_source(self) -> Self:
        needs = SOURCES[self.source].settings
        for name in dict.fromkeys(name for row in SOURCES.values() for name in row.settings):
            value = getattr(self, name)
            if value is None and needs.get(name):
                raise ValueError(f"source={self.source} needs {needs[name]}. Received: {name}=None")
            sources = [source for source, row in SOURCES.items() if name in row.settings]
            only_for("source", *sources).check(self, name, None)
        for name in AUGMENTATIONS:
            value = getattr(self, name)
            expected = f"{name} needs augment=true"
            require(value is None or self.augment, expected, f"{name}={value}, augment=false")
        expected = "mixup and cutmix need batch_size of 2 or more"
        received = f"batch_size={self.batch_size}"
        require(self.batch_size >= 2 or not (self.mixup or self.cutmix), expected, received)
        return self


class OptimizerConfig(Dependent):
    """Optimizer; the learning rate warms up linearly, then falls."""

    name: Literal["sgd", "rmsprop", "adamw", "lamb", "lion"] = "sgd"
    """rmsprop is for MobileNetV2, adamw for fine-tuning, lamb for large batches."""
    learning_rate: float = Field(default=0.1, gt=0)
    """Highest learning rate for 256 images per step; it scales with the batch size. 0.1 is for sgd;
    adamw needs about 0.0005, lion a fifth of that."""
    momentum: Annotated[float, only_for("name", "sgd", "rmsprop")] = Field(default=0.9, ge=0, lt=1)
    """sgd, rmsprop: momentum."""
    nesterov: Annotated[bool, only_for("name", "sgd")] = False
    """sgd: Nesterov's momentum."""
    beta_1: Annotated[float | None, _FOR_DECOUPLED] = Field(default=None, ge=0, lt=1)
    """adamw, lamb, lion: decay of the mean of gradients; None: 0.9."""
    beta_2: Annotated[float | None, _FOR_DECOUPLED] = Field(default=None, ge=0, lt=1)
    """adamw, lamb: decay of the mean of squared gradients; lion: decay of the momentum. None:
    0.999, for lion 0.99."""
    epsilon: Annotated[float | None, only_for("name", "rmsprop", "adamw", "lamb")] = Field(
        default=None, gt=0
    )
    """rmsprop, adamw, lamb: constant in the denominator; None: 0.002, 1e-7, 1e-6."""
    weight_decay: float = Field(default=0, ge=0)
    """sgd, rmsprop: L2 regularization, weight_decay / 2 times the sum of squares of all kernels in
    the loss. adamw, lion: decoupled, subtracts learning_rate * weight_decay * kernel at each step;
    lamb: the same within the trust ratio. Not on biases, normalization or position embeddings."""
    weight_decay_on: Literal["kernels", "all_but_batch_norm"] = "kernels"
    """Variables with weight decay; all_but_batch_norm: biases and position embeddings, too."""
    global_clipnorm: float | None = Field(default=None, gt=0)
    """Clips gradients to this global norm; None: without."""
    layer_decay: float | None = Field(default=None, gt=0, le=1)
    """Layer-wise learning rate decay: factor from one block to the one before it, such as 0.75. The
    classifier has the full rate, the stem the lowest. None: one rate for all."""
    warmup_epochs: float = Field(default=5, ge=0)
    """Epochs of linear warm-up from rate 0."""
    schedule: Literal["cosine", "exponential"] = "cosine"
    """After warm-up: cosine to 0 at the end; exponential: steps of decay_rate."""
    decay_rate: Annotated[float, _FOR_EXPONENTIAL] = Field(default=0.99, gt=0, le=1)
    """exponential: factor of the learning rate."""
    decay_epochs: Annotated[float, _FOR_EXPONENTIAL] = Field(default=3, gt=0)
    """exponential: epochs between two factors."""

    @property
    def decoupled(self) -> bool:
        """Whether weight decay is decoupled, not a term of the loss."""
        return self.name in _DECOUPLED


class TrainingConfig(Dependent):
    """Length, precision and seed of training."""

    epochs: Count = 90
    """Passes over the training images."""
    loss: Literal["categorical_crossentropy", "binary_crossentropy"] = "categorical_crossentropy"
    """binary_crossentropy: each class is a binary label of its own, as mixed images have several;
    for lamb."""
    binary_threshold: Annotated[float | None, only_for("loss", "binary_crossentropy")] = Field(
        default=None, ge=0, lt=1
    )
    """binary_crossentropy: soft labels of mixed images above this become 1, others 0; None: they
    stay soft."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Probability spread evenly over all classes."""
    ema: float | None = Field(default=None, gt=0, lt=1)
    """Decay of the EMA of weights and batch statistics, such as 0.9999. EMA weights are evaluated
    and saved. None: without."""
    early_stopping_epochs: Count | None = None
    """Stop after this many epochs without better test accuracy, and keep the best weights; None:
    train all epochs."""
    gradient_accumulation_steps: Count = 1
    """Gradient accumulation: micro-batches of a batch that does not fit into memory as a whole.
    Batch statistics are computed per micro-batch."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16", "auto"] = "float32"
    """Keras dtype policy: bfloat16 suits TPUs and CPUs with instructions for it, float16 GPUs.
    auto: mixed_bfloat16 on TPUs and such CPUs, else float32."""
    steps_per_execution: Count = 1
    """Steps per call of the compiled training function."""
    checkpoint_steps: Count | None = None
    """Steps between checkpoints within an epoch; None: after every epoch only."""
    delete_checkpoint: bool = True
    """Remove the checkpoints of the finished run; false: keep the last three and the best."""
    jit_compile: bool = False
    """Compile with XLA; one device only."""
    recompute: bool = False
    """JAX: gradient checkpointing. Activations within blocks are computed again in the backward
    pass: less memory, a third more time."""
    callbacks: list[str] = Field(default=[])
    """Keras callbacks in addition to the run's own, as package.module:Name of a class or a function
    without arguments; their code is run."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of weights, shuffling and augmentation."""


class DistillationConfig(Dependent):
    """Knowledge distillation from a finished run, or from a network of the zoo with weights."""

    run: AnyPath | None = None
    """Folder of the teacher's finished run, local or gs://."""
    model: NetworkName | None = None
    """The teacher by its name in the zoo, with weights."""
    weights: Weights | None = None
    """Weights of that model, for the classes of the data: imagenet, hf://owner/repo, or a
    .weights.h5 or .safetensors file."""
    overrides: Annotated[TypedValues, needs("model", "{value}")] = Field(default={})
    """Other constructor arguments of that model."""
    temperature: float = Field(default=2, gt=0, le=1000)
    """Divisor of the logits of teacher and student; the higher, the more the teacher's small
    probabilities count."""
    share: float = Field(default=0.5, gt=0, le=1)
    """Weight of the distillation term in the loss; labels have the rest."""

    @model_validator(mode="after")
    def _one_teacher(self) -> Self:
        if self.run is not None and self.model is not None:
            raise ValueError(f"expected run or model. Received: run={self.run}, model={self.model}")
        expected = "expected model with weights"
        received = f"model={self.model}, weights={self.weights}"
        require((self.model is None) == (self.weights is None), expected, received)
        for name in () if self.run or self.model else ("share", "temperature"):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} needs a teacher: run, or model with weights")
        return self


class TrainConfig(RunConfig):
    """Trains a model of the zoo and writes a run folder.

    The folder holds config.yaml, checkpoints/ (the state after the last epochs), model.keras,
    model.weights.h5, metrics.json, curves.png, predictions.png and logs/ for TensorBoard. The same
    command resumes an interrupted run.
    A command line setting overrides --config FILE, which overrides the default. 'None' unsets one.
    """

    task: Literal["classification"] = Field(default="classification", description=_OTHER_TASKS)
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()
    distillation: DistillationConfig = DistillationConfig()
    tpu_cores: Count | None = Field(default=None, exclude=True)
    """TPU cores that the configuration is for: a run on a quarter of them or less warns."""

    def longer(self) -> str:
        warm = " --model.weights_model None" if self.model.weights_model else ""
        return (
            f"for more epochs, start a new run from its weights: add --model.weights "
            f"{self.output_dir}{warm} --optimizer.warmup_epochs 0 --output_dir NEW"
        )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        expected = "data.name: expected images of one label each to train on, such as imagenet2012"
        received = repr(self.data.name)
        require(not (self.data.name or "").startswith("imagenet2012_real"), expected, received)
        if self.data.pseudo.dir is not None:
            self._check_pseudo()
        warmup, epochs = self.optimizer.warmup_epochs, self.training.epochs
        expected = f"optimizer.warmup_epochs: expected fewer than training.epochs ({epochs})"
        require(warmup < epochs, expected, warmup)
        return self

    def _check_pseudo(self) -> None:
        images = self.data.pseudo.ratio * self.data.batch_size
        expected = "data.pseudo.ratio: expected a whole number of pseudo-labeled images in a batch"
        received = f"{self.data.pseudo.ratio:g} times data.batch_size={self.data.batch_size}"
        require(round(images) >= 1 and math.isclose(images, round(images)), expected, received)
        for name, is_set in {
            "data.class_weights": self.data.class_weights is not None,
            "training.binary_threshold": self.training.binary_threshold is not None,
            "teacher in distillation": bool(self.distillation.run or self.distillation.model),
        }.items():
            if is_set:
                raise ValueError(f"data.pseudo.dir: expected no {name} with pseudo-labels")
