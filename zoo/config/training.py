"""Settings of the loop: how long, by which loss, with which precision."""

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
    """binary_crossentropy: every class is there or not, by itself, as mixed images have several;
    for lamb."""
    binary_threshold: float | None = Field(default=None, ge=0, lt=1)
    """binary_crossentropy: parts of a class in a mixed image above this count as 1, others as 0;
    None: as parts."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Probability spread evenly over all classes."""
    ema: float | None = Field(default=None, gt=0, lt=1)
    """Decay of the moving averages of weights and batch statistics, which are evaluated and saved,
    such as 0.9999; None: without."""
    early_stopping_epochs: int | None = Field(default=None, ge=1)
    """End after so many epochs without better test accuracy, and keep the best weights; None: train
    all epochs."""
    gradient_accumulation_steps: int = Field(default=1, ge=1)
    """Parts of a batch that are computed one after the other, where a whole one does not fit into
    memory; batch statistics are those of the parts."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras dtype policy: bfloat16 suits TPUs, float16 GPUs."""
    steps_per_execution: int = Field(default=1, ge=1)
    """Steps per call of the compiled function."""
    checkpoint_steps: int | None = Field(default=None, ge=1)
    """Steps between checkpoints within an epoch; None: after every epoch only."""
    delete_checkpoint: bool = True
    """Remove the checkpoints when the run is finished, which then needs none; false: keep the last
    three and the best."""
    jit_compile: bool = False
    """Compile with XLA; one device only."""
    recompute: bool = False
    """JAX: keep only the ends of blocks for the backward pass, and compute the rest again: less
    memory, a third more time."""
    callbacks: list[Annotated[str, checked_by(_check_place)]] = Field(default=[])
    """Callbacks of Keras beside the run's own, as package.module:Name of a class or a function
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
