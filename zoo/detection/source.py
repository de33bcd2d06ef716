"""Sources of a detector: a finished run, or a published network."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tf_keras
from keras.layers import Layer
from pydantic import Field

from zoo.config.detection import DetectionConfig
from zoo.detection.detector import Detector, TestMetrics, load_metrics
from zoo.detection.shards import Categories
from zoo.inference.source.base import LICENSE, Source
from zoo.inference.source.published import Description, bounded_by, read
from zoo.model_card import LABELS, versions


class DetectorDescription(Description):
    """The description of a detector in `lambda_keras.json`; `heads` are as in its settings."""

    task: Literal["detection"]
    image_size: int
    heads: dict[str, Any]
    categories: Categories
    masks: bool
    test: TestMetrics
    test_images: int = Field(ge=1)

    def config(self) -> DetectionConfig:
        model = self.model_dump(include={"overrides", "image_size", "heads"})
        return DetectionConfig.model_validate({"model": {"name": self.model, **model}})


@dataclass(frozen=True)
class Run(Source[Detector]):
    """A run folder, local or gs://."""

    folder: Path

    def load(self) -> Detector:
        return Detector.from_run(self.folder)

    def card(self) -> dict[str, str]:
        metrics = load_metrics(self.folder)
        return {
            "Weights": f"run {self.folder.resolve().name}",
            "Trained on": f"{metrics.training_images:,} images",
            **average_precision(metrics.test, metrics.test_images),
            "License": LICENSE,
        }


@dataclass(frozen=True)
class Published(Source[Detector]):
    """A published network: a folder of `zoo.publish`, or its address on the hub."""

    place: str

    def load(self) -> Detector:
        described, weights = read(self.place, DetectorDescription)
        with bounded_by(weights, Layer, tf_keras.layers.Layer):
            detector = Detector.build(described.config(), described.categories, described.masks)
        detector.load_weights(weights)
        return detector

    def card(self) -> dict[str, str]:
        described, weights = read(self.place, DetectorDescription)
        precision = average_precision(described.test, described.test_images)
        return described.weights_fields(self.place, weights) | precision


def choose(settings: Any) -> Source[Detector]:
    """Returns the source that the settings of a command name."""
    return Published(settings.model) if settings.run is None else Run(settings.run)


def detector_fields(detector: Detector) -> dict[str, str]:
    """Returns card fields about a detector and its images."""
    return {
        "Detector": f"{detector.title}, of TensorFlow's Model Garden",
        "Images": f"resized to fit {detector.image_size} x {detector.image_size} pixels",
        "Categories": f"{len(detector.categories)}, with their ids in {LABELS}",
        "Written with": versions("lambda_keras", "tensorflow", "tf-models-official"),
    }


def average_precision(test: TestMetrics, images: int) -> dict[str, str]:
    """Returns card fields about the AP on test images."""
    fields = {"Box AP": f"{test.box.AP} ({images:,} test images)"}
    if test.mask is not None:
        fields["Mask AP"] = f"{test.mask.AP} ({images:,} test images)"
    return fields
