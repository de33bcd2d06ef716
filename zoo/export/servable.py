"""What is exported: a model, what photographs go through before it, the names of its classes."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import keras
import tensorflow as tf

from lambda_keras.applications.preprocessing import Preprocessing, preprocessing_of
from lambda_keras.weights import PUBLISHED
from zoo import run_folder
from zoo.config import TrainConfig
from zoo.data.crops import decode_centre
from zoo.data.load import held_out_preprocessing
from zoo.inference.classifier import Classifier

LICENSE = "code Apache-2.0; weights as their author says, who may be bound by the training images'"


@dataclass(frozen=True)
class Servable:
    """A model with all that a server needs to answer about photographs.

    Attributes:
        name: Of the model in the zoo.
        model: Takes images that passed `preprocess_input`, gives probabilities of shape
            `(batch, classes)`.
        class_names: Names of the classes.
        view: From the bytes of a JPEG or PNG file, a scalar string, to a float32 image of shape
            `(size, size, 3)` in [0, 255], as in evaluation; TensorFlow alone, so that it can be
            part of a graph.
        origin: What the model card says about weights, training and preprocessing.
    """

    name: str
    model: keras.Model
    class_names: Sequence[str]
    view: Callable[[tf.Tensor], tf.Tensor]
    origin: Mapping[str, str]

    @property
    def image_size(self) -> int:
        """Height and width of the model's images in pixels."""
        return int(self.model.input_shape[1])

    @classmethod
    def from_run(cls, folder: Path) -> Self:
        """Loads the model of a finished run; its weights are averages if the run made them.

        Raises:
            ValueError: If there is no finished run, or its model is damaged.
        """
        config = run_folder.load_config(folder)
        classifier = Classifier.from_run(folder)
        preprocessing = held_out_preprocessing(config.data, config.model.size)
        return cls._of(classifier, preprocessing, _origin_of_run(folder, config))

    @classmethod
    def from_weights(
        cls,
        name: str,
        weights: str,
        class_names: Sequence[str] | None = None,
        image_size: int | None = None,
    ) -> Self:
        """Builds a model of the zoo.

        Args:
            name: One of `zoo.registry.list_models()`.
            weights: What its constructor takes: "imagenet", a file, or a place on the hub.
            class_names: Names of the classes. Defaults to those of ImageNet.
            image_size: Height and width in pixels. Defaults to the model's own.

        Raises:
            ValueError: If there is no such model, or the weights do not fit it and the names.
        """
        try:
            classifier = Classifier.from_weights(name, weights, class_names, image_size)
        except ValueError as error:
            if class_names is not None:
                raise ValueError(
                    f"with the {len(class_names)} classes of --labels: {error}"
                ) from None
            raise ValueError(
                f"with the 1000 classes of ImageNet (--labels names others): {error}"
            ) from None
        size = int(classifier.model.input_shape[1])
        return cls._of(classifier, preprocessing_of(name, size), _origin_of_weights(name, weights))

    @classmethod
    def _of(
        cls, classifier: Classifier, preprocessing: Preprocessing, origin: Mapping[str, str]
    ) -> Self:
        size, part = preprocessing.image_size, preprocessing.crop_fraction
        seen = (
            f"central square of {part:.1%} of the shorter side, resized to {size} x {size} pixels"
        )
        return cls(
            classifier.name,
            classifier.model,
            list(classifier.class_names),
            partial(decode_centre, preprocessing=preprocessing),
            {**origin, "Preprocessing": f"{seen}, {preprocessing.interpolation}, antialiased"},
        )


def _origin_of_run(folder: Path, config: TrainConfig) -> dict[str, str]:
    metrics = run_folder.load_metrics(folder)
    decay = config.training.ema
    kind = "not averaged" if decay is None else f"moving averages, decay {decay}"
    data = " ".join(filter(None, (config.data.source, config.data.name)))
    return {
        "Weights": f"run {folder.resolve().name}, {kind}",
        "Keras model": f"{run_folder.MODEL} of the run; `import lambda_keras` comes before "
        "`keras.models.load_model`",
        "Trained on": f"{data}, {metrics.training_images:,} images, "
        f"{config.training.epochs} epochs",
        "Test accuracy": f"{metrics.test.accuracy:.4f} ({metrics.test_images:,} images)",
        "License": LICENSE,
    }


def _origin_of_weights(name: str, weights: str) -> dict[str, str]:
    if weights == "imagenet":
        published = PUBLISHED[name]
        return {
            "Weights": f"https://huggingface.co/{published.repository}, {published.revision}",
            "Published accuracy": f"{published.top1} % on ImageNet, "
            f"{published.image_size} x {published.image_size} pixels",
            "License": published.license,
        }
    if weights.startswith("hf://"):
        return {"Weights": weights, "License": LICENSE}
    with open(weights, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"Weights": f"{Path(weights).name}, SHA-256 {digest}", "License": LICENSE}
