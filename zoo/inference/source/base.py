"""Interface of the sources of a network."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Generic, Self, TypeVar

import numpy as np
import tensorflow as tf

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.config import DataConfig
from zoo.data.load import ImageData, load_data
from zoo.errors import needs_extra
from zoo.inference.classifier import Classifier

LICENSE = "code Apache-2.0; weights as their author says, who may be bound by the training images'"

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

    def card_sections(self) -> dict[str, str]:
        """Returns further sections of a model card, by their headings."""
        return {}

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
        """Returns image files that it was not trained on, and labels if known: crops of samples."""
        with needs_extra("train"):
            from sklearn.datasets import load_sample_images
        parts = (
            image[rows, columns]
            for image in load_sample_images().images
            for rows in (slice(None), slice(0, 300), slice(127, None))
            for columns in (slice(None), slice(0, 400), slice(240, None))
        )
        return [bytes(tf.io.encode_jpeg(part, quality=90).numpy()) for part in parts], None


def load_images(config: DataConfig, preprocessing: Preprocessing) -> ImageData:
    """Loads test images; a `resize` of the settings that was given replaces the network's."""
    if "resize" in config.model_fields_set:
        preprocessing = replace(preprocessing, resize=config.resize)
    # Datasets like imagenet_v2 have no training images; the test images stand in for them.
    changes = {"train_split": config.test_split, "batch_size": 1, "augment": False}
    config = config.model_copy(update=changes)
    return load_data(config, preprocessing.image_size, preprocessing=preprocessing)
