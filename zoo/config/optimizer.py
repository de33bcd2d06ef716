"""Settings of the optimizer."""

from typing import Literal, Self

from pydantic import Field, model_validator

from zoo.cli.settings import Section

DECOUPLED = ("adamw", "lamb", "lion")  # optimizers with decoupled weight decay

# Settings that only some optimizers have.
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
    """Highest learning rate for 256 images per step; it scales with the batch size. 0.1 is for sgd;
    adamw needs about 0.0005, lion a fifth of that."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """sgd, rmsprop: momentum."""
    nesterov: bool = False
    """sgd: Nesterov's momentum."""
    beta_1: float | None = Field(default=None, ge=0, lt=1)
    """adamw, lamb, lion: decay of the mean of gradients; None: 0.9."""
    beta_2: float | None = Field(default=None, ge=0, lt=1)
    """adamw, lamb: decay of the mean of squared gradients; lion: decay of the momentum. None:
    0.999, for lion 0.99."""
    epsilon: float | None = Field(default=None, gt=0)
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
    decay_rate: float = Field(default=0.99, gt=0, le=1)
    """exponential: factor of the learning rate."""
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
        """Whether weight decay is decoupled, not a term of the loss."""
        return self.name in DECOUPLED
