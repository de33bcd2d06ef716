"""Options that name a model: a finished run, a published one, or a name with weights."""

import os
import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import model_validator

from lambda_keras.models.specs import is_published_name
from zoo.cli.settings import Settings
from zoo.cli.tasks import HUB, NETWORK, is_place, is_published
from zoo.errors import refusal, require, shorten
from zoo.fields import AnyPath, ImageSize, LocalPath, checked_by
from zoo.files import why_no_file
from zoo.registry import find_model

IN_FOLDERS = ("model.safetensors", "model.weights.h5")  # the first one that exists is read


def _check_source(weights: str) -> None:
    if weights.startswith(HUB) or is_published_name(weights):
        return
    path = os.path.expanduser(weights)
    files = [os.path.join(path, name) for name in IN_FOLDERS]
    if weights.endswith((".h5", ".safetensors")):
        files.append(path)
    require(
        any(map(os.path.isfile, files)),
        f"expected imagenet, hf://owner/repo, a folder with {' or '.join(IN_FOLDERS)}, or the "
        ".weights.h5, .h5 (of Keras 2) or .safetensors path of an existing file",
        shorten(repr(weights), 200),
    )


def check_place(model: str) -> None:
    """Checks the folder of a published network, or the form of its address on the hub."""
    expected = f"expected a folder of python -m zoo.publish, with {NETWORK}"
    require(is_published(model), expected, repr(model))
    if model.startswith(HUB) and not re.fullmatch(r"hf://[\w.-]+/[\w.-]+(@\S+)?", model):
        raise refusal("expected hf://OWNER/NAME or hf://OWNER/NAME@REVISION", repr(model))


Weights = Annotated[str, checked_by(_check_source)]


class PlaceOptions(Settings):
    """Settings --run or --model, which name a network with its metadata; commands add others."""

    # Settings that a run or a published network decides.
    decided: ClassVar[frozenset[str]] = frozenset({"model"})

    run: AnyPath | None = None
    """Folder of a finished run, local or gs://."""
    model: str | None = None
    """Published network: its folder, or hf://OWNER/NAME."""
    image_size: ImageSize | None = None
    """Height and width of images in pixels, with the same weights; None: the size in training."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = self.decided & self.model_fields_set
        require(self.run is None or not given, "--run already says which model", sorted(given))
        if self.run is None:
            self._check_model()
        return self

    def _check_model(self) -> None:
        if self.model is None:
            raise ValueError("expected --run, or --model with a network of zoo.publish")
        check_place(self.model)


class WeightsOptions(PlaceOptions):
    """Settings --run, or --model and --weights."""

    decided = frozenset({"model", "weights"})

    model: str | None = None
    """Model, by its name (see python -m zoo.list); or a published one, with its weights and labels:
    its folder, or hf://OWNER/NAME."""
    weights: Weights | None = None
    """imagenet for published weights (zoo.list has more names), hf://OWNER/NAME, or a .weights.h5
    or .safetensors file."""

    def _check_model(self) -> None:
        if self.model is None:
            raise ValueError("expected --run, or --model and --weights")
        if is_place(self.model):
            check_place(self.model)
            given = (self.decided & self.model_fields_set) - {"model"}
            expected = f"--model {self.model} already says which weights and labels"
            require(not given, expected, sorted(given))
            return
        find_model(self.model)
        if self.weights is None:
            expected = f"expected --weights imagenet, or a file of weights for {self.model}"
            raise refusal(f"{expected}: without weights it knows nothing", "weights=None")


class ModelOptions(WeightsOptions):
    """Settings of `WeightsOptions` and a precision."""

    precision: Literal["float32", "mixed_bfloat16", "auto"] | None = None
    """Keras dtype policy to compute in. auto: mixed_bfloat16 on TPUs and on CPUs with instructions
    for it, else float32; None: the policy of training."""


def read_labels(path: Path) -> list[str]:
    """Returns the names of classes, one from each line of a text file."""
    why = why_no_file(path) if os.path.isfile(path) else "not found"
    require(not why, "expected a text file", f"{str(path)!r}, {why}")
    try:
        names = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise refusal("expected text in UTF-8", repr(str(path))) from None
    if not names or not all(names):
        raise ValueError(f"expected the name of a class in every line of {str(path)!r}")
    return names


class ClassifierOptions(ModelOptions):
    """Settings of `ModelOptions` and class names for --weights."""

    decided = ModelOptions.decided | {"labels"}

    labels: Annotated[LocalPath, checked_by(read_labels)] | None = None
    """Text file with the name of a class of --weights per line; None: the classes of published
    weights, 1000 of ImageNet."""

    @property
    def class_names(self) -> list[str] | None:
        """The names in the file."""
        return None if self.labels is None else read_labels(self.labels)
