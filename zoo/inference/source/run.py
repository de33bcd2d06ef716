"""Classifiers of finished runs of `zoo.train`."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from lambda_keras.weights import load_weights
from lambda_keras.weights.fit import check_finite
from zoo import run_folder
from zoo.config import DataConfig
from zoo.data.load import ImageData, held_out_files, held_out_preprocessing
from zoo.files import local_copy, why_no_file
from zoo.inference.classifier import Classifier
from zoo.inference.source.base import (
    LICENSE,
    ClassifierSource,
    at_size,
    load_images,
    measured_at,
)

FOLDER = "image_folder"  # data source that may hold out test images from the training images


@dataclass(frozen=True)
class Run(ClassifierSource):
    """A run folder, local or gs://."""

    folder: Path
    image_size: int | None = None  # None: as in training
    averaged: bool = True  # EMA weights, if there are any

    def load(self) -> Classifier:
        config = run_folder.load_config(self.folder)
        names = run_folder.load_metrics(self.folder).class_names
        model = _load_model(self.folder / run_folder.MODEL)
        if model.output_shape[-1] != len(names):
            raise ValueError(
                f"run: expected {model.output_shape[-1]} class_names, one for each output of the "
                f"model, in {self.folder / run_folder.METRICS}. Received: {len(names)}"
            )
        if not self.averaged:
            with local_copy(self.folder / run_folder.RAW_WEIGHTS) as here:
                load_weights(model, here, config.model.name)
        preprocessing = held_out_preprocessing(config.data, config.model.size)
        classifier = Classifier(config.model.name, model, preprocessing, names)
        return at_size(classifier, config.model.overrides, self.image_size)

    def card(self) -> dict[str, str]:
        config = run_folder.load_config(self.folder)
        metrics = run_folder.load_metrics(self.folder)
        decay = config.training.ema
        kind = "not averaged" if decay is None else f"moving averages, decay {decay}"
        data = " ".join(filter(None, (config.data.source, config.data.name)))
        return {
            "Weights": f"run {self.folder.resolve().name}, {kind}",
            "Keras model": f"{run_folder.MODEL} of the run; `import lambda_keras` comes before "
            "`keras.models.load_model`",
            "Trained on": f"{data}, {metrics.training_images:,} images, "
            f"{config.training.epochs} epochs",
            "Test accuracy": f"{metrics.test.accuracy:.4f} ({metrics.test_images:,} images"
            f"{measured_at(config.model.size, self.image_size)})",
            "License": LICENSE,
        }

    def without_averages(self) -> Self:
        raw = self.folder / run_folder.RAW_WEIGHTS
        if not raw.is_file():
            raise ValueError(
                f"averaged: expected true, for {self.folder} has no other weights ({raw.name}), as "
                "it was trained without training.ema. Received: false"
            )
        return replace(self, averaged=False)

    def load_with_images(self, data: DataConfig) -> tuple[Classifier, ImageData]:
        classifier = self.load()
        return classifier, load_images(data, classifier.preprocessing, self._trained(data))

    def held_out_files(self, most: int) -> tuple[list[bytes], np.ndarray | None]:
        config = run_folder.load_config(self.folder)
        size = self.image_size or config.model.size
        try:
            return held_out_files(config.data, size, most, self._trained(config.data))
        except ValueError as error:  # the images may be on another machine
            print(f"without test accuracy, compared on packaged images: {error}", file=sys.stderr)
            return super().held_out_files(most)

    def _trained(self, data: DataConfig) -> dict[str, Any] | None:
        """Returns the index or counts of the run's images; None unless both are image folders.

        Contents decide, not the path: the same images may be in another folder.
        """
        if {data.source, run_folder.load_config(self.folder).data.source} != {FOLDER}:
            return None
        index = self.folder / run_folder.INDEX
        if index.is_file():
            return run_folder.read_index(index, "run")
        metrics = run_folder.load_metrics(self.folder)
        return {
            "training images": metrics.training_images,
            "test images": metrics.test_images,
        }


def _load_model(path: Path) -> keras.Model:
    try:
        with local_copy(path) as here:
            if why := why_no_file(here):
                raise ValueError(why)
            model: Any = keras.models.load_model(here)
        if not model.built:  # such as an empty Sequential
            raise ValueError("a model without layers")
        for weight in model.weights:
            check_finite(weight.path, keras.ops.convert_to_numpy(weight), str(path))
    except Exception as error:  # ZIP, HDF5 and Keras raise many kinds
        reason = " ".join(str(error).split())
        raise ValueError(f"run: expected an intact model. Received: {path} ({reason})") from error
    return model
