"""Interface of the sources of a network."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
import tensorflow as tf

from lambda_keras.applications.preprocessing import Preprocessing
from lambda_keras.layers.arguments import is_positive_integer
from lambda_keras.weights.fit import take_layers
from zoo.config import DataConfig
from zoo.data.load import ImageData, load_test_images
from zoo.errors import needs_extra
from zoo.fields import IMAGE_SIZES, SIZE_RANGE
from zoo.inference.classifier import Classifier
from zoo.registry import create_model

LICENSE = "code: Apache-2.0; weights: their author's; those of the training images may also apply"

N = TypeVar("N")


class Source(ABC, Generic[N]):
    """Source of a trained network."""

    @abstractmethod
    def load(self) -> N:
        """Loads the network, or raises a `ValueError` of one line."""

    @abstractmethod
    def card(self) -> dict[str, str]:
        """Returns card fields about the weights: origin, training, accuracy and license."""


class ClassifierSource(Source[Classifier]):
    """Source of a classifier."""

    def for_data(self, class_names: Sequence[str], image_size: int) -> Self:
        """Returns the source with these classes and this size, unless it has its own."""
        return self

    def without_averages(self) -> Self:
        """Returns the source with raw weights instead of EMA weights."""
        raise ValueError("averaged: only a run has other weights than the averaged ones")

    def load_with_images(self, data: DataConfig) -> tuple[Classifier, ImageData]:
        """Loads the classifier, and test images with its preprocessing."""
        classifier = self.load()
        return classifier, load_images(data, classifier.preprocessing)

    def held_out_files(self, most: int) -> tuple[list[bytes], np.ndarray | None]:
        """Returns image files not seen in training, and labels if known; here crops of samples."""
        with needs_extra("train"):
            from sklearn.datasets import load_sample_images
        parts = (
            image[rows, columns]
            for image in load_sample_images().images
            for rows in (slice(None), slice(0, 300), slice(127, None))
            for columns in (slice(None), slice(0, 400), slice(240, None))
        )
        return [bytes(tf.io.encode_jpeg(part, quality=90).numpy()) for part in parts], None


def at_size(
    classifier: Classifier, overrides: Mapping[str, Any], image_size: int | None
) -> Classifier:
    """Rebuilds a classifier for another image size, with the same weights; None: its own size.

    `overrides` are arguments of its constructor. Refuses weights whose shapes depend on the size.
    """
    size, trained = classifier.image_size, classifier.model
    if image_size in (None, size):
        return classifier
    check_size(image_size)
    shape = (image_size, image_size, trained.input_shape[-1])
    with fixed_size(size, image_size):
        model = create_model(
            classifier.name, classes=len(classifier.class_names), input_shape=shape, **overrides
        )
        if others := take_layers(model, trained):
            raise ValueError(
                f"{others[0].name} and {len(others) - 1} more layers have position embeddings for "
                "all positions of one grid"
            )
    preprocessing = replace(classifier.preprocessing, image_size=image_size)
    return replace(classifier, model=model, preprocessing=preprocessing)


def check_size(image_size: Any) -> None:
    """Checks the height and width of images in pixels."""
    if not is_positive_integer(image_size) or image_size not in IMAGE_SIZES:
        raise ValueError(f"image_size: expected an integer {SIZE_RANGE}. Received: {image_size!r}")


@contextmanager
def fixed_size(trained_size: int, image_size: int | None) -> Iterator[None]:
    """Adds the setting to errors of networks that cannot have images of another size."""
    try:
        yield
    except ValueError as error:
        if image_size in (None, trained_size):
            raise
        expected = f"image_size: expected {trained_size}, as in training. Received: {image_size}"
        raise ValueError(f"{expected} ({error})") from None


def measured_at(size: int, image_size: int | None) -> str:
    """Returns the image size of an accuracy as text; empty unless images have another."""
    return "" if image_size in (None, size) else f" of {size} x {size} pixels"


def load_images(
    config: DataConfig, preprocessing: Preprocessing, trained: Mapping[str, Any] | None = None
) -> ImageData:
    """Loads test images; a `resize` given in the settings replaces the network's."""
    if "resize" in config.model_fields_set:
        preprocessing = replace(preprocessing, resize=config.resize)
    return load_test_images(config, preprocessing.image_size, preprocessing, trained)
