"""Settings of the network that a run trains."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from zoo.cli.model_options import Weights
from zoo.cli.plain_yaml import typed
from zoo.cli.settings import Section, checked_by
from zoo.registry import find_model

# Arguments of constructors that training gives itself: the loss is that of probabilities, of as
# many classes as the data have.
_DECIDED = {"include_top", "pooling", "classes", "classifier_activation"}
_DECIDED |= {"name", "weights", "adapt_weights", "input_shape", "input_tensor"}
_DECIDED |= {"batch_norm_momentum"}


def _typed(overrides: dict[str, Any]) -> dict[str, Any]:
    taken = _DECIDED & overrides.keys()
    if taken:
        raise ValueError(
            "expected arguments that the data, the other settings and the loss do not decide. "
            f"Received: {', '.join(sorted(taken))}"
        )
    return typed(overrides)


Overrides = Annotated[dict[str, Any], AfterValidator(_typed)]


class ModelConfig(Section):
    """The network to train."""

    name: Annotated[str, checked_by(find_model)] = "lambda_resnet14"
    """Model, by its name: see python -m zoo.list."""
    image_size: int | None = Field(default=None, ge=8, le=2048)
    """Height and width in pixels; None: the model's own."""
    overrides: Overrides = Field(default={})
    """Other constructor arguments, e.g. --model.overrides dropout_rate=0.2"""
    weights: Weights | None = None
    """Initial weights, of any number of classes: imagenet, hf://OWNER/NAME, the folder of a run or
    of zoo.publish, or a .weights.h5 or .safetensors file; None: from random weights."""
    weights_model: Annotated[str, checked_by(find_model)] | None = None
    """Network of the weights, if another one (warm start): layers of the same name and shapes get
    its weights; the others are named, and start from random weights."""
    weights_overrides: Overrides = Field(default={})
    """Constructor arguments of that network, e.g. --model.weights_overrides placement=CCCC"""
    freeze_backbone: bool = False
    """Train the classifier only, as a first step of fine-tuning."""
    freeze_up_to: Literal["stem", "c2", "c3", "c4", "c5"] | None = None
    """Freeze weights and batch statistics up to the end of this stage; None: train all."""
    batch_norm_momentum: float | None = Field(default=0.99, ge=0, lt=1)
    """Momentum of the moving statistics of every batch normalization; None: the constructor's,
    0.9."""
    synchronized_batch_norm: bool = False
    """Compute batch statistics over all devices, not over each one alone."""

    @model_validator(mode="after")
    def _frozen_once(self) -> Self:
        if self.freeze_backbone and self.freeze_up_to is not None:
            raise ValueError(
                "freeze_backbone freezes all stages. Received: freeze_backbone=true, "
                f"freeze_up_to={self.freeze_up_to}"
            )
        return self

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
