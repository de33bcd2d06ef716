"""Networks at another image size than in training."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.api import evaluate, load, load_data
from zoo.config import DataConfig
from zoo.inference.classifier import Classifier, predict
from zoo.inference.source import base
from zoo.inference.source.base import at_size
from zoo.inference.source.kinds import choose
from zoo.inference.source.published import Published
from zoo.inference.source.run import Run
from zoo.inference.source.weights import Weights
from zoo.registry import create_model

SMALL = {"filters": 4, "num_heads": 2, "key_dim": 4}


def classifier(**overrides) -> Classifier:
    keras.utils.set_random_seed(0)
    arguments = SMALL | overrides
    model = create_model("lambda_resnet14", classes=3, input_shape=(32, 32, 3), **arguments)
    return Classifier("lambda_resnet14", model, Preprocessing(32, 0.5, "bilinear"), list("abc"))


def weights(model) -> dict[str, np.ndarray]:
    return {one.path: keras.ops.convert_to_numpy(one) for one in model.weights}


def test_weights_overrides_and_crop_are_those_of_training():
    trained, overrides = classifier(scope=5), SMALL | {"scope": 5}
    other = at_size(trained, overrides, 48)
    assert other.model.input_shape == (None, 48, 48, 3)
    np.testing.assert_equal(weights(other.model), weights(trained.model))
    assert other.preprocessing == Preprocessing(48, 0.5, "bilinear")
    assert at_size(trained, overrides, None) is at_size(trained, overrides, 32) is trained
    for size in (7, 48.0, 2049):
        expected = f"^image_size: expected an integer from 8 to 2048. Received: {size}$"
        with pytest.raises(ValueError, match=expected):
            at_size(trained, overrides, size)


def test_what_cannot_be_resized_is_refused():
    message = (
        r"^image_size: expected 32, as in training. Received: 48 \(c4_block1_2_lambda and 1 more "
        "layers have position embeddings"
    )
    with pytest.raises(ValueError, match=message):
        at_size(classifier(scope=None), SMALL | {"scope": None}, 48)


def test_resizing_of_a_network_stays_unless_given(monkeypatch):
    seen = []
    monkeypatch.setattr(base, "load_test_images", lambda *given: seen.append(given[2]))
    own = Preprocessing(32, 0.5, "bilinear", resize="pad")
    base.load_images(DataConfig(), own)
    base.load_images(DataConfig(resize="crop"), own)
    assert [one.resize for one in seen] == ["pad", "crop"]


def test_source_that_settings_name():
    names = {"image_size": 64, "class_names": ["a", "b"], "overrides": {"scope": 5}}
    settings = SimpleNamespace(run=None, model="m", weights="w.h5", **names)
    assert choose(settings) == Weights("m", "w.h5", **names)
    assert choose(SimpleNamespace(**{**vars(settings), "run": "r"})) == Run("r", 64)
    assert choose(SimpleNamespace(**{**vars(settings), "weights": None})) == Published("m", 64)


def test_runs_and_published_networks(run, published):
    loaded = load(run)
    for place in (run, published):
        other = load(place, image_size=24)
        np.testing.assert_equal(weights(other.model), weights(loaded.model))
        assert other.image_size == 24
    images, labels = load_data(24, source="digits").test.sample(1000)
    probabilities = predict(other.model, images)[np.arange(360), labels]
    assert evaluate(run, image_size=24).loss == pytest.approx(-np.log(probabilities).mean(), 1e-4)
    assert Run(run, 24).card()["Test accuracy"].endswith("(360 images of 16 x 16 pixels)")
