"""Settings of knowledge distillation."""

from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from zoo.cli.model_options import Weights
from zoo.cli.plain_yaml import typed
from zoo.cli.settings import AnyPath, Section, checked_by
from zoo.registry import find_model


class DistillationConfig(Section):
    """Knowledge distillation from a finished run, or from a network of the zoo with weights."""

    run: AnyPath | None = None
    """Folder of the teacher's finished run, local or gs://."""
    model: Annotated[str, checked_by(find_model)] | None = None
    """The teacher by its name in the zoo, with weights."""
    weights: Weights | None = None
    """Weights of that model, for the classes of the data: imagenet, hf://owner/repo, or a
    .weights.h5 or .safetensors file."""
    overrides: dict[str, Any] = Field(default={})
    """Other constructor arguments of that model."""
    temperature: float = Field(default=2, gt=0, le=1000)
    """Divisor of the logits of teacher and student; the higher, the more the teacher's small
    probabilities count."""
    share: float = Field(default=0.5, gt=0, le=1)
    """Weight of the distillation term in the loss; labels have the rest."""

    @field_validator("overrides")
    @classmethod
    def _typed(cls, overrides: dict[str, Any]) -> dict[str, Any]:
        return typed(overrides)

    @model_validator(mode="after")
    def _one_teacher(self) -> Self:
        if self.run is not None and self.model is not None:
            raise ValueError(f"expected run or model. Received: run={self.run}, model={self.model}")
        if (self.model is None) != (self.weights is None):
            raise ValueError(
                f"expected model with weights. Received: model={self.model}, weights={self.weights}"
            )
        if self.overrides and self.model is None:
            raise ValueError(f"overrides needs model. Received: {self.overrides}")
        changed = self.model_fields_set & {"temperature", "share"}
        defaults = type(self).model_fields
        changed = {name for name in changed if getattr(self, name) != defaults[name].default}
        if changed and not self.has_teacher:
            raise ValueError(f"{min(changed)} needs a teacher: run, or model with weights")
        return self

    @property
    def has_teacher(self) -> bool:
        """Whether a teacher is set."""
        return self.run is not None or self.model is not None
