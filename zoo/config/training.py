"""Settings of the training loop: length, loss, precision."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from zoo.cli.settings import Section, checked_by


def _check_place(place: str) -> None:
    module, _, name = place.partition(":")
    if not (name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise ValueError(f"expected package.module:Name. Received: {place!r}")


class TrainingConfig(Section):
    """Length, precision and seed of training."""

    epochs: int = Field(default=90, ge=1)
    """Passes over the training images."""
    loss: Literal["categorical_crossentropy", "binary_crossentropy"] = "categorical_crossentropy"
    """binary_crossentropy: each class is a binary label of its own, as mixed images have several;
    for lamb."""
    binary_threshold: float | None = Field(default=None, ge=0, lt=1)
    """binary_crossentropy: soft labels of mixed images above this become 1, others 0; None: they
    stay soft."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Probability spread evenly over all classes."""
    ema: float | None = Field(default=None, gt=0, lt=1)
    """Decay of the EMA of weights and batch statistics, such as 0.9999. EMA weights are evaluated
    and saved. None: without."""
    early_stopping_epochs: int | None = Field(default=None, ge=1)
    """Stop after this many epochs without better test accuracy, and keep the best weights; None:
    train all epochs."""
    gradient_accumulation_steps: int = Field(default=1, ge=1)
    """Gradient accumulation: micro-batches of a batch that does not fit into memory as a whole.
    Batch statistics are those of the micro-batches."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras dtype policy: bfloat16 suits TPUs, float16 GPUs."""
    steps_per_execution: int = Field(default=1, ge=1)
    """Steps per call of the compiled training function."""
    checkpoint_steps: int | None = Field(default=None, ge=1)
    """Steps between checkpoints within an epoch; None: after every epoch only."""
    delete_checkpoint: bool = True
    """Remove the checkpoints of the finished run; false: keep the last three and the best."""
    jit_compile: bool = False
    """Compile with XLA; one device only."""
    recompute: bool = False
    """JAX: gradient checkpointing. Activations within blocks are computed again in the backward
    pass: less memory, a third more time."""
    callbacks: list[Annotated[str, checked_by(_check_place)]] = Field(default=[])
    """Keras callbacks in addition to the run's own, as package.module:Name of a class or a function
    without arguments; their code is run."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of weights, shuffling and augmentation."""

    @model_validator(mode="after")
    def _threshold_of_binary_labels(self) -> Self:
        if self.binary_threshold is not None and self.loss != "binary_crossentropy":
            raise ValueError(
                "binary_threshold is for loss=binary_crossentropy only. "
                f"Received: binary_threshold={self.binary_threshold}, loss={self.loss}"
            )
        return self
