"""Which model a command is about: that of a finished run, or one with weights."""

from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, field_validator, model_validator

from zoo.registry import find_model
from zoo.settings import Settings


class ModelSource(Settings):
    """Settings --run, or --model and --weights; a command adds its own."""

    # Settings that a run decides itself.
    of_model: ClassVar[frozenset[str]] = frozenset({"model", "weights", "image_size"})

    config: Path | None = Field(
        default=None, exclude=True, description="YAML file with these settings."
    )
    model: str | None = Field(default=None, description="Model, by its name in zoo/registry.py.")
    weights: str | None = Field(
        default=None,
        description="'imagenet' for published weights, hf://OWNER/REPOSITORY, or a .weights.h5 or "
        ".safetensors file.",
    )
    run: Path | None = Field(default=None, description="Folder of a finished run.")
    image_size: int | None = Field(
        default=None,
        ge=8,
        le=2048,
        description="Height and width for --model; None: the model's own.",
    )

    @field_validator("weights")
    @classmethod
    def _existing(cls, weights: str | None) -> str | None:
        somewhere_else = weights in (None, "imagenet") or str(weights).startswith("hf://")
        if not somewhere_else and not Path(str(weights)).is_file():
            raise ValueError(
                f"expected 'imagenet', 'hf://...' or an existing file. Received: {weights!r}"
            )
        return weights

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        of_model = self.of_model & self.model_fields_set
        if self.run is not None and of_model:
            raise ValueError(f"--run already says which model. Received: {sorted(of_model)}")
        if self.run is None and self.model is None:
            raise ValueError("expected --run, or --model and --weights")
        if self.model is not None:
            find_model(self.model)
            if self.weights is None:
                raise ValueError(
                    f"expected --weights imagenet, or a file of weights for {self.model}: "
                    "without weights it knows nothing. Received: weights=None"
                )
        return self
