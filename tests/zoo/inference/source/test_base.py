"""Networks at another image size than in training."""

import keras
import numpy as np
import pytest

from lambda_keras.applications.preprocessing import Preprocessing
from zoo.api import evaluate, load, load_data
from zoo.inference.classifier import Classifier, predict
from zoo.inference.source.base import at_size
from zoo.inference.source.run import Run
from zoo.registry import create_model


def classifier(name="lambda_resnet14", **overrides) -> Classifier:
    keras.utils.set_random_seed(0)
    model = create_model(name, classes=3, input_shape=(32, 32, 3), **overrides)
    return Classifier(name, model, Preprocessing(32, 0.5, "bilinear"), ["a", "b", "c"])


def weights(model) -> dict[str, np.ndarray]:
    return {one.path: keras.ops.convert_to_numpy(one) for one in model.weights}


def test_weights_overrides_and_crop_are_those_of_training():
    trained = classifier(scope=5)
    other = at_size(trained, {"scope": 5}, 48)
    assert other.model.input_shape == (None, 48, 48, 3)
    np.testing.assert_equal(weights(other.model), weights(trained.model))
    assert other.preprocessing == Preprocessing(48, 0.5, "bilinear")
    assert at_size(trained, {"scope": 5}, None) is at_size(trained, {"scope": 5}, 32) is trained


@pytest.mark.parametrize(
    ("name", "overrides", "size", "part"),
    [
        ("lambda_resnet14", {"scope": None}, 48, "c4_block1_2_lambda and 1 more layers have pos"),
        ("botnet26t_256", {}, 64, "c4_block2_2_attention and 2 more layers have position emb"),
        ("lambda_resnet14", {}, 7, "image_size: expected an integer from 8 to 2048. Received: 7"),
        ("lambda_resnet14", {}, 48.0, "image_size: expected an integer from 8 to 2048. Received"),
    ],
)
def test_what_cannot_be_resized_is_refused(name, overrides, size, part):
    with pytest.raises(ValueError, match=r"^image_size: expected ") as caught:
        at_size(classifier(name, **overrides), overrides, size)
    assert part in str(caught.value)
    assert f"Received: {size}" in str(caught.value)


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
