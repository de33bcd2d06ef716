"""A network that compiles in no time."""

import keras
import pytest

from lambda_keras.models.specs import STAGES
from zoo.benchmark import models


@pytest.fixture
def tiny_networks(monkeypatch):
    """It stands for all networks of the zoo, and for MobileNet of keras.applications."""

    def create(*_, input_shape, classes=1000, **__):
        inputs = x = keras.Input(input_shape)
        for name in STAGES:
            x = keras.layers.Conv2D(4, 1, name=name)(x)
        x = keras.layers.GlobalAveragePooling2D()(keras.layers.BatchNormalization()(x))
        outputs = keras.layers.Dense(classes, "softmax", dtype="float32", name="predictions")(x)
        return keras.Model(inputs, outputs)

    monkeypatch.setattr(models, "create_model", create)
    monkeypatch.setattr(keras.applications, "MobileNet", create)
