"""Networks published by `zoo.publish`: descriptions and loading.

Descriptions and weights are data: no code in a folder or repository is executed.
"""

import inspect
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import keras
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lambda_keras.applications.preprocessing import Preprocessing
from lambda_keras.models.specs import IMAGENET_MEAN, IMAGENET_STD
from lambda_keras.weights import hub, load_weights
from lambda_keras.weights.files import read_shapes
from zoo.cli.model_options import MAX_BYTES, NETWORK
from zoo.cli.settings import checked_by
from zoo.config import DataConfig, ModelConfig
from zoo.data.load import ImageData
from zoo.errors import first_wrong
from zoo.files import why_no_file
from zoo.inference.classifier import Classifier
from zoo.inference.source.base import LICENSE, ClassifierSource, load_images
from zoo.registry import create_model, find_model

WEIGHTS = "model.safetensors"

_BUILDING = threading.Lock()

Channels = tuple[float, float, float]


class Part(BaseModel):
    """A part of a description; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class View(Part):
    """Evaluation preprocessing: the arguments of `Preprocessing`."""

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
        """Returns the preprocessing as a function of images."""
        return Preprocessing(**vars(self))


class TestImages(Part):
    """Test accuracy of the network."""

    accuracy: float = Field(ge=0, le=1)
    images: int = Field(ge=1)


class Description(Part):
    """The fields of `lambda_keras.json` that every task has.

    Attributes:
        format: Version of this description.
        model: Name of the network in the zoo.
        overrides: Other arguments of its constructor.
        trained_on: Training images and length of the training, in words.
        license: SPDX identifier for the weights; None if none was stated.
        sha256: Checksum of `model.safetensors`.
    """

    format: Literal[1] = 1
    model: Annotated[str, checked_by(find_model)]
    overrides: dict[str, Any]
    trained_on: str = Field(max_length=1000)
    license: str | None = Field(max_length=100)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")

    def to_json(self) -> str:
        """Returns the content of `lambda_keras.json`."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"

    def weights_fields(self, source: str, weights: Path) -> dict[str, str]:
        """Returns the card fields about the origin of the weights, for every task."""
        shown = source if source.startswith(hub.PREFIX) else f"folder {Path(source).resolve().name}"
        return {
            "Weights": f"{weights.name} of {shown}, SHA-256 {self.sha256}",
            "Trained on": self.trained_on,
            "License": self.license or LICENSE,
        }


class ClassifierDescription(Description):
    """The description of a classifier.

    Attributes:
        class_names: Names of the classes, in the order of the outputs.
        preprocessing: Preprocessing of images, as when the accuracy was measured.
        test: Accuracy on held-out images.
    """

    class_names: list[str] = Field(min_length=2)
    preprocessing: View
    test: TestImages

    @model_validator(mode="after")
    def _buildable(self) -> Self:
        try:
            ModelConfig(name=self.model, overrides=self.overrides)
        except ValidationError as error:
            raise ValueError(first_wrong(error, "model")) from None
        return self


D = TypeVar("D", bound=Description)


@dataclass(frozen=True)
class Published(ClassifierSource):
    """A published network: a folder of `zoo.publish`, or its address on the hub.

    Attributes:
        place: Folder, or `"hf://owner/name"`, with `"@revision"` or without.
    """

    place: str

    @classmethod
    def of(cls, settings: Any) -> Self | None:
        """Returns the published network that the setting `model` names."""
        return None if settings.model is None else cls(settings.model)

    def load(self) -> Classifier:
        """Loads the network, with labels and preprocessing of its description."""
        network, weights = read(self.place, ClassifierDescription)
        view = network.preprocessing.preprocessing()
        with bounded_by(weights, keras.layers.Layer):
            model = create_model(
                network.model,
                classes=len(network.class_names),
                input_shape=(view.image_size, view.image_size, 3),
                **network.overrides,
            )
        load_weights(model, weights, network.model)
        return Classifier(network.model, model, view, network.class_names)

    def card(self) -> dict[str, str]:
        """Returns card fields about the weights and the training."""
        network, weights = read(self.place, ClassifierDescription)
        test = network.test
        return network.weights_fields(self.place, weights) | {
            "Test accuracy": f"{test.accuracy:.4f} ({test.images:,} images)"
        }

    def load_with_images(self, data: DataConfig) -> tuple[Classifier, ImageData]:
        """Loads the network, and test images with its preprocessing."""
        classifier = self.load()
        return classifier, load_images(data, classifier.image_size, classifier.preprocessing)


def read(source: str, kind: type[D]) -> tuple[D, Path]:
    """Returns the description of a network and its weight file, downloaded if necessary.

    Args:
        source: Folder, or `"hf://owner/name"`, with `"@revision"` or without.
        kind: Class of its description.

    Raises:
        ValueError: If there is no such network, or its files are damaged.
        FileNotFoundError: If the hub cannot be reached, and the files are not cached.
    """
    if not source.startswith(hub.PREFIX):
        folder = Path(source)
        description = _describe(folder / NETWORK, kind)
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
    description = _describe(path, kind)
    # The cache names folders by commits: both files are from the same one.
    weights = hub.fetch(repository, [WEIGHTS], path.parent.name, description.sha256)
    return description, weights


@contextmanager
def bounded_by(weights: Path, *layers: type) -> Iterator[None]:
    """Refuses weights of networks built in the `with` block whose shapes a file does not hold.

    A malicious description could request layers of any number and size. So each shape is looked up
    in the header of the file before memory is allocated. Other threads are not restricted.

    Args:
        weights: Safetensors file.
        *layers: Base classes of the layers, of Keras, and of tf_keras for detectors.

    Raises:
        ValueError: If the file is damaged, or has no array for a weight.
    """
    left = Counter(read_shapes(weights))
    thread = threading.get_ident()

    def bounded(original: Any) -> Any:
        signature = inspect.signature(original)

        def add_weight(layer: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == thread:
                shape = signature.bind(layer, *args, **kwargs).arguments.get("shape")
                size = (shape,) if isinstance(shape, int) else tuple(shape or ())
                left[size] -= 1
                if left[size] < 0:
                    raise ValueError(
                        f"the weights in {str(weights)!r} do not fit the model that {NETWORK} "
                        f"describes: expected an array of shape {size} for the layer "
                        f"{layer.name!r}. Received: none of that shape"
                    )
            return original(layer, *args, **kwargs)

        return add_weight

    with _BUILDING:
        originals = {layer: layer.add_weight for layer in layers}
        try:
            for layer, original in originals.items():
                layer.add_weight = bounded(original)
            yield
        finally:
            for layer, original in originals.items():
                layer.add_weight = original


def _describe(path: Path, kind: type[D]) -> D:
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
        return kind.model_validate_json(content)
    except ValidationError as error:
        reason = first_wrong(error, "the file")
    except ValueError as error:
        reason = str(error)
    raise ValueError(f"model: expected an intact {NETWORK}. Received: {str(path)!r} ({reason})")
