"""Settings of the optimizer."""

from typing import Literal, Self

from pydantic import Field, model_validator

from zoo.cli.settings import Section

DECOUPLED = ("adamw", "lamb", "lion")  # optimizers that decay weights themselves, not by the loss

# Settings of some optimizers alone.
_OF_OPTIMIZERS = {
    "nesterov": ("sgd",),
    "beta_1": DECOUPLED,
    "beta_2": DECOUPLED,
    "epsilon": ("rmsprop", "adamw", "lamb"),
}


class OptimizerConfig(Section):
    """Optimizer; the learning rate warms up linearly, then falls."""

    name: Literal["sgd", "rmsprop", "adamw", "lamb", "lion"] = "sgd"
    """sgd and rmsprop have momentum; rmsprop is for MobileNetV2, adamw for fine-tuning, lamb for
    large batches."""
    learning_rate: float = Field(default=0.1, gt=0)
    """Highest rate for 256 images per step; scales with the batch size. 0.1 is for sgd; adamw needs
    some 0.0005, lion a fifth of that."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """sgd, rmsprop: momentum."""
    nesterov: bool = False
    """sgd: Nesterov's momentum."""
    beta_1: float | None = Field(default=None, ge=0, lt=1)
    """adamw, lamb, lion: decay of the mean of gradients; None: 0.9."""
    beta_2: float | None = Field(default=None, ge=0, lt=1)
    """adamw, lamb, lion: decay of the mean of their squares (lion: of the momentum that is kept);
    None: 0.999, for lion 0.99."""
    epsilon: float | None = Field(default=None, gt=0)
    """rmsprop, adamw, lamb: what is added to the denominator; None: 0.002, 1e-7, 1e-6."""
    weight_decay: float = Field(default=0, ge=0)
    """sgd, rmsprop: L2 in the loss, half of it times the square of every kernel. adamw, lion: this
    part of every kernel, times the learning rate, goes at each step; lamb: within the trust ratio.
    Not on biases, normalisation or position embeddings."""
    weight_decay_on: Literal["kernels", "all_but_batch_norm"] = "kernels"
    """all_but_batch_norm: also on biases and position embeddings."""
    global_clipnorm: float | None = Field(default=None, gt=0)
    """Highest norm of all gradients together; longer ones are shortened to it. None: any."""
    layer_decay: float | None = Field(default=None, gt=0, le=1)
    """Factor of the learning rate from one block to the one before it, such as 0.75: the classifier
    has the full rate, the stem the lowest. None: one rate for all."""
    warmup_epochs: float = Field(default=5, ge=0)
    """Epochs from rate 0 to the highest one."""
    schedule: Literal["cosine", "exponential"] = "cosine"
    """After warm-up: cosine to 0 at the end; exponential: steps of decay_rate."""
    decay_rate: float = Field(default=0.99, gt=0, le=1)
    """exponential: factor of the rate."""
    decay_epochs: float = Field(default=3, gt=0)
    """exponential: epochs between two factors."""

    @model_validator(mode="after")
    def _fits_optimizer(self) -> Self:
        for setting, names in _OF_OPTIMIZERS.items():
            value = getattr(self, setting)
            if value not in (None, False) and self.name not in names:
                allowed = " or ".join(f"name={name}" for name in names)
                raise ValueError(
                    f"{setting} is for {allowed} only. Received: {setting}={value}, "
                    f"name={self.name}"
                )
        return self

    @property
    def decoupled(self) -> bool:
        """Whether the optimizer decays weights itself, in place of a term in the loss."""
        return self.name in DECOUPLED
