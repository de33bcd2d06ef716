"""A model, random but with answers that differ, and its export."""

import pytest
from support.servables import small_servable

from zoo.export import saved_model
from zoo.inference.classifier import Classifier
from zoo.inference.source.weights import Weights

NAMES = ["Tempel", "größe", "a b", "d", "e", "f", "g"]


@pytest.fixture(scope="session")
def weights(tmp_path_factory) -> str:
    """File with weights of lambda_resnet14 for seven classes."""
    path = tmp_path_factory.mktemp("weights") / "random.weights.h5"
    small_servable("lambda_resnet14", len(NAMES)).model.save_weights(path)
    return str(path)


@pytest.fixture(scope="session")
def servable(weights) -> Classifier:
    """The same model for images of 16 pixels."""
    return Weights("lambda_resnet14", weights, NAMES, 16).load()


@pytest.fixture(scope="session")
def exported(servable, tmp_path_factory):
    """Folder of its SavedModel."""
    folder = tmp_path_factory.mktemp("exported") / "1"
    saved_model.write(servable, folder)
    return folder
