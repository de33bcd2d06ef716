"""A small network whose outputs differ from image to image, and its export."""

from dataclasses import replace
from pathlib import Path

import pytest

from zoo.export.base import Options
from zoo.export.exporter import Export
from zoo.export.saved_model import SavedModel
from zoo.export.verify import export_of
from zoo.inference.classifier import Classifier
from zoo.inference.source.run import Run
from zoo.inference.source.weights import Weights

NAMES = ["Tempel", "größe", "a b", *"defghij"]


@pytest.fixture(scope="session")
def servable(run) -> Classifier:
    """lambda_resnet14 with few channels, ten classes, for images of 16 pixels."""
    classifier = Run(run).load()
    kernel = classifier.model.get_layer("predictions").kernel
    kernel.assign(3 * kernel)
    return replace(classifier, class_names=NAMES)


@pytest.fixture(scope="session")
def export(servable) -> Export:
    """Its export as a SavedModel, compared on images of scikit-learn."""
    return export_of(servable, Weights("lambda_resnet14", "hf://a/b"), "saved_model", Options())


@pytest.fixture(scope="session")
def exported(servable, tmp_path_factory) -> Path:
    """Folder of its SavedModel."""
    folder = tmp_path_factory.mktemp("exported") / "1"
    SavedModel().write(servable, folder, Options())
    return folder
