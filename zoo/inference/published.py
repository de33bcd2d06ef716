"""A network as `zoo.publish` writes it for others: what describes it, and how that is read.

Descriptions and weights are data. Nothing in a folder or repository is run.
"""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import keras
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lambda_keras.applications.preprocessing import Preprocessing
from lambda_keras.models.specs import IMAGENET_MEAN, IMAGENET_STD
from lambda_keras.weights import hub
from lambda_keras.weights.files import read_shapes
from zoo.cli.model_options import NETWORK
from zoo.cli.settings import checked_by
from zoo.config import ModelConfig
from zoo.errors import first_wrong
from zoo.files import why_no_file
from zoo.registry import find_model

WEIGHTS = "model.safetensors"
MAX_BYTES = 2**22  # of a description; that of the 21,841 classes of ImageNet has half a million

_BUILDING = threading.Lock()

Channels = tuple[float, float, float]


class View(BaseModel):
    """Evaluation preprocessing: the arguments of `Preprocessing`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image_size: int = Field(ge=8, le=2048)
    crop_fraction: float
    interpolation: Literal["bilinear", "bicubic", "lanczos"]
    mean: Channels
    std: Channels

    @model_validator(mode="after")
    def _possible(self) -> Self:
        self.preprocessing()
        if (self.mean, self.std) != (tuple(IMAGENET_MEAN), tuple(IMAGENET_STD)):
            raise ValueError(
                f"expected the mean {IMAGENET_MEAN} and std {IMAGENET_STD} of preprocess_input. "
                f"Received: {self.mean}, {self.std}"
            )
        return self

    def preprocessing(self) -> Preprocessing:
        """Returns it as a function of images."""
        return Preprocessing(**vars(self))


class TestImages(BaseModel):
    """Test accuracy of the network."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    accuracy: float = Field(ge=0, le=1)
    images: int = Field(ge=1)


class PublishedNetwork(BaseModel):
    """The description in `lambda_keras.json`.

    Attributes:
        format: Version of this description.
        model: Name of the network in the zoo.
        overrides: Other arguments of its constructor.
        class_names: Names of the classes, in the order of the outputs.
        preprocessing: Preprocessing of images, as when the accuracy was measured.
        test: Accuracy on held-out images.
        trained_on: Which images, and how long, in words.
        license: SPDX identifier for the weights; None if none was stated.
        sha256: Checksum of `model.safetensors`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    model: Annotated[str, checked_by(find_model)]
    overrides: dict[str, Any]
    class_names: list[str] = Field(min_length=2)
    preprocessing: View
    test: TestImages
    trained_on: str = Field(max_length=1000)
    license: str | None = Field(max_length=100)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")

    @model_validator(mode="after")
    def _buildable(self) -> Self:
        try:
            ModelConfig(name=self.model, overrides=self.overrides)
        except ValidationError as error:
            raise ValueError(first_wrong(error, "model")) from None
        return self


def is_published(source: str | PathLike[str]) -> bool:
    """Returns whether this is an address of the hub, or a folder that `zoo.publish` wrote."""
    return str(source).startswith(hub.PREFIX) or os.path.isfile(Path(source) / NETWORK)


def read(source: str) -> tuple[PublishedNetwork, Path]:
    """Returns the description of a network and the file of its weights, downloaded if need be.

    Args:
        source: Folder, or `"hf://owner/name"`, with `"@revision"` or without.

    Raises:
        ValueError: If there is no such network, or its files are damaged.
        FileNotFoundError: If the hub cannot be reached, and they are not cached.
    """
    if not source.startswith(hub.PREFIX):
        folder = Path(source)
        description = _describe(folder / NETWORK)
        weights = folder / WEIGHTS
        if reason := why_no_file(weights):
            raise ValueError(f"model: expected {WEIGHTS} in {source!r}. Received: {reason}")
        if (received := hub.sha256(weights)) != description.sha256:
            raise ValueError(
                f"model: damaged file: expected SHA-256 {description.sha256}, as {NETWORK} has "
                f"it. Received: {str(weights)!r} with {received}"
            )
        return description, weights
    repository, revision = hub.parse_address(source)
    path = hub.fetch(repository, [NETWORK], revision)
    description = _describe(path)
    # The cache names the folder by the commit: both files are of the same one.
    weights = hub.fetch(repository, [WEIGHTS], path.parent.name, description.sha256)
    return description, weights


@contextmanager
def bounded_by(weights: Path) -> Iterator[None]:
    """Refuses weights of networks that are built within, unless a file has one of their shape.

    A description can ask for any number of layers of any size. So each shape is looked up in the
    header of the file before its memory is allocated. Other threads build what they like.

    Args:
        weights: File of safetensors.

    Raises:
        ValueError: If the file is damaged, or has no array for a weight.
    """
    left = Counter(read_shapes(weights))
    thread = threading.get_ident()

    def add_weight(layer: Any, shape: Any = None, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() == thread:
            size = (shape,) if isinstance(shape, int) else tuple(shape or ())
            left[size] -= 1
            if left[size] < 0:
                raise ValueError(
                    f"the weights in {str(weights)!r} do not fit the model that {NETWORK} "
                    f"describes: expected an array of shape {size} for the layer {layer.name!r}. "
                    "Received: none of that shape"
                )
        return original(layer, shape, *args, **kwargs)

    with _BUILDING:
        original = keras.layers.Layer.add_weight
        keras.layers.Layer.add_weight = add_weight
        try:
            yield
        finally:
            keras.layers.Layer.add_weight = original


def _describe(path: Path) -> PublishedNetwork:
    if reason := why_no_file(path):
        raise ValueError(
            f"model: expected a folder of python -m zoo.publish, with {NETWORK}. "
            f"Received: {str(path.parent)!r} ({reason})"
        )
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    try:
        if len(content) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES:,} bytes")
        return PublishedNetwork.model_validate_json(content)
    except ValidationError as error:
        reason = first_wrong(error, "the file")
    except ValueError as error:
        reason = str(error)
    raise ValueError(f"model: expected an intact {NETWORK}. Received: {str(path)!r} ({reason})")


def to_json(network: PublishedNetwork) -> str:
    """Reads and checks the description and the place of the weights."""
    return json.dumps(network.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"
