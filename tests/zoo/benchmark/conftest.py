"""A network that compiles in no time."""

import keras
import pytest

from zoo import registry
from zoo.benchmark import networks


@pytest.fixture
def tiny_networks(monkeypatch):
    """It stands for all networks of the zoo, and for MobileNet of keras.applications."""

    def create(*_, input_shape, classes=1000, **__):
        inputs = keras.Input(input_shape)
        x = keras.layers.Conv2D(4, 3)(inputs)
        x = keras.layers.GlobalAveragePooling2D()(keras.layers.BatchNormalization()(x))
        return keras.Model(inputs, keras.layers.Dense(classes, "softmax", dtype="float32")(x))

    monkeypatch.setattr(networks, "create_model", create)
    monkeypatch.setattr(registry, "create_model", create)
    monkeypatch.setattr(keras.applications, "MobileNet", create)
