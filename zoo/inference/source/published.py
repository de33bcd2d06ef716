"""Published networks: descriptions and loading.

Descriptions and weights are data: no code in a folder or repository is executed.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import tensorflow as tf
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lambda_keras.applications.preprocessing import Preprocessing
from lambda_keras.models.specs import IMAGENET_MEAN, IMAGENET_STD
from lambda_keras.weights import hub, load_weights
from lambda_keras.weights.files import read_shapes
from zoo.cli.tasks import MAX_BYTES, NETWORK
from zoo.config import ModelConfig
from zoo.errors import first_wrong
from zoo.fields import IMAGE_SIZES, SIZE_RANGE, checked_by
from zoo.files import why_no_file
from zoo.inference.classifier import Classifier
from zoo.inference.source.base import LICENSE, ClassifierSource, at_size, measured_at
from zoo.registry import create_model, find_model
from zoo.run_folder import read_json

WEIGHTS = "model.safetensors"


def _check_preprocessing(view: Preprocessing) -> None:
    """Checks size and interpolation, and that mean and std are as in `preprocess_input`."""
    if view.image_size not in IMAGE_SIZES or view.interpolation == "nearest":
        raise ValueError(
            f"expected an image_size {SIZE_RANGE}, and the interpolation bilinear, bicubic or "
            f"lanczos. Received: {view.image_size}, {view.interpolation}"
        )
    if (view.mean, view.std) != (tuple(IMAGENET_MEAN), tuple(IMAGENET_STD)):
        raise ValueError(
            f"expected the mean {IMAGENET_MEAN} and std {IMAGENET_STD} of preprocess_input. "
            f"Received: {view.mean}, {view.std}"
        )


class TestImages(BaseModel, extra="forbid", frozen=True):
    """Test accuracy of the network."""

    accuracy: float = Field(ge=0, le=1)
    images: int = Field(ge=1)


class Description(BaseModel):
    """The fields of `lambda_keras.json` that every task has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    model: Annotated[str, checked_by(find_model)]
    overrides: dict[str, Any]  # arguments of its constructor
    trained_on: str = Field(max_length=1000)  # images and length of the training, in words
    license: str | None = Field(max_length=100)  # SPDX identifier, if one was stated
    sha256: str = Field(pattern="^[0-9a-f]{64}$")  # of the weights

    @model_validator(mode="after")
    def _buildable(self) -> Self:
        try:
            self.config()
        except ValidationError as error:
            raise ValueError(first_wrong(error, "model")) from None
        return self

    def config(self) -> Any:
        """Returns the settings of the network, with defaults for training."""
        return ModelConfig(name=self.model, overrides=self.overrides)

    def weights_fields(self, source: str, weights: Path) -> dict[str, str]:
        """Returns the card fields about the origin of the weights, for every task."""
        shown = source if source.startswith(hub.PREFIX) else f"folder {Path(source).resolve().name}"
        return {
            "Weights": f"{weights.name} of {shown}, SHA-256 {self.sha256}",
            "Trained on": self.trained_on,
            "License": self.license or LICENSE,
        }


class ClassifierDescription(Description):
    """The description of a classifier, with the accuracy on held-out images."""

    task: Literal["classification"] = "classification"  # older descriptions lack it
    class_names: list[str] = Field(min_length=2)
    preprocessing: Annotated[Preprocessing, checked_by(_check_preprocessing)]
    test: TestImages


D = TypeVar("D", bound=Description)


@dataclass(frozen=True)
class Published(ClassifierSource):
    """A published network: a folder, or `"hf://owner/name[@revision]"`."""

    place: str
    image_size: int | None = None  # None: as in training

    def load(self) -> Classifier:
        network, weights = read(self.place, ClassifierDescription)
        size = network.preprocessing.image_size
        with bounded_by(weights):
            model = create_model(
                network.model,
                classes=len(network.class_names),
                input_shape=(size, size, 3),
                **network.overrides,
            )
        load_weights(model, weights, network.model)
        classifier = Classifier(network.model, model, network.preprocessing, network.class_names)
        return at_size(classifier, network.overrides, self.image_size)

    def card(self) -> dict[str, str]:
        network, weights = read(self.place, ClassifierDescription)
        test = network.test
        return network.weights_fields(self.place, weights) | {
            "Test accuracy": f"{test.accuracy:.4f} ({test.images:,} images"
            f"{measured_at(network.preprocessing.image_size, self.image_size)})"
        }


def read(source: str, kind: type[D]) -> tuple[D, Path]:
    """Returns the description of a published network and its weight file; may download them."""
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
    # The cache names folders by commit: both files are from the same commit.
    weights = hub.fetch(repository, [WEIGHTS], path.parent.name, description.sha256)
    return description, weights


@contextmanager
def bounded_by(weights: Path) -> Iterator[None]:
    """Limits networks built in the `with` block to variables whose shapes a weight file holds.

    A malicious description could request layers of any number and size. So each shape is looked up
    in the header of the file before memory is allocated. Other threads are not restricted. The
    variables are zeros, because the weights of the file replace them.
    """
    left = Counter(read_shapes(weights))
    symbolic = tf.Graph()  # where initializers allocate nothing

    def create(create_next: Callable[..., tf.Variable], **options: Any) -> tf.Variable:
        value = options["initial_value"]
        with symbolic.as_default():
            spec: Any = tf.type_spec_from_value(value() if callable(value) else value)
        shape, dtype = tuple(spec.shape), tf.as_dtype(options["dtype"] or spec.dtype)
        if not dtype.is_floating:  # the state of a random generator, which no file holds
            return create_next(**options)
        left[shape] -= 1
        if left[shape] < 0:
            raise ValueError(
                f"the weights in {str(weights)!r} do not fit the model that {NETWORK} "
                f"describes: expected an array of shape {shape} for the variable "
                f"{options['name']!r}. Received: none of that shape"
            )
        return create_next(**options | {"initial_value": lambda: tf.zeros(shape, dtype)})

    with tf.variable_creator_scope(create):
        yield


def _describe(path: Path, kind: type[D]) -> D:
    if reason := why_no_file(path):
        raise ValueError(
            f"model: expected a folder of python -m zoo.publish, with {NETWORK}. "
            f"Received: {str(path.parent)!r} ({reason})"
        )
    expected = f"model: expected an intact {NETWORK}"
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{expected}. Received: {path} (more than {MAX_BYTES:,} bytes)")
    return read_json(kind, path, expected)
