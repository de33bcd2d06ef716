"""The commands as functions."""

import re
from dataclasses import replace

import keras
import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_images

from lambda_keras.applications import LambdaResNet14, preprocess_input
from zoo.api import evaluate, lambda_maps, load_classifier, load_data, train
from zoo.config import TrainConfig
from zoo.data.load import load_data as load
from zoo.inference import lambda_maps as maps_of_models
from zoo.inference.classifier import Classifier
from zoo.run_folder import load_metrics
from zoo.train import classification


@pytest.fixture(scope="module")
def classifier(run) -> Classifier:
    return load_classifier(run)


@pytest.fixture
def china() -> np.ndarray:
    return load_sample_images().images[0][::4, ::4]


def test_files_arrays_and_commands_get_the_same_answers(classifier, tmp_path, china):
    path = tmp_path / "china.png"
    Image.fromarray(china).save(path)
    (expected,) = classifier.predict_views(classifier.views([path]), 3)
    assert classifier(path, top=3) == classifier(str(path), top=3) == expected
    assert classifier(china, top=3) == expected
    assert classifier(Image.fromarray(china), top=3) == expected
    several = [[path, china], [Image.fromarray(china), path], np.stack([china, china])]
    for images in several:
        for scores in classifier(images, top=3):
            assert [score.name for score in scores] == [score.name for score in expected]
            found, wanted = ([score.probability for score in one] for one in (scores, expected))
            assert found == pytest.approx(wanted, abs=1e-6)
    assert classifier([]) == []
    assert len(classifier(china, top=99)) == 10
    assert sum(score.probability for score in classifier(china, top=10)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (7, "expected images. Received: 7"),
        ("x" * 5000 + ".jpg", "characters left out"),
        ([7], "expected the path of an image, an image of Pillow, or a"),
        (
            np.zeros((4, 4, 3)),
            "a uint8 array of shape (height, width, 3). Received: a ndarray of fl",
        ),
        (np.zeros((4, 4, 1), "uint8"), "shape=(4, 4, 1)"),
        (np.zeros((0, 4, 3), "uint8"), "shape=(0, 4, 3)"),
        (np.zeros((4, 4), "uint8"), "shape=(4,)"),
        ("missing.jpg", "unreadable image: missing.jpg"),
        (Image.new("F", (4, 4)), "unreadable image of Pillow: pixels signed or of more"),
        ([Image.new("RGB", (0, 4))], "unreadable image of Pillow: no pixels"),
    ],
)
def test_what_is_no_image_is_refused(classifier, images, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        classifier(images)


@pytest.mark.parametrize("top", [0, -1, 1.5, True])
def test_top_is_a_positive_integer(classifier, china, top):
    with pytest.raises(ValueError, match="expected top to be a positive integer"):
        classifier(china, top=top)


def test_training_is_that_of_the_command(tmp_path, monkeypatch):
    """tests/zoo/test_docs.py trains with it."""
    monkeypatch.setattr(classification, "train", lambda config: {"settings": config.to_yaml()})
    received = train("lambda_resnet14_digits", output_dir=tmp_path, training={"epochs": 3})
    line = f"--config lambda_resnet14_digits --output_dir {tmp_path} --training.epochs 3"
    expected = TrainConfig.from_command_line(line.split())
    assert received["settings"] == expected.to_yaml()
    assert expected.data.batch_size == 32  # the configuration's
    assert train(output_dir=tmp_path)["settings"] == TrainConfig(output_dir=tmp_path).to_yaml()


def test_run_and_published_network_are_measured_alike(run, published):
    own, other = evaluate(run), evaluate(published)
    assert own.top1 == other.top1 == pytest.approx(load_metrics(run).test.accuracy)
    np.testing.assert_array_equal(own.predicted, other.predicted)
    np.testing.assert_array_equal(own.labels, other.labels)
    assert own.loss == other.loss


def test_evaluation_of_other_images(run, photos, tmp_path):
    for data, message in (
        ({"source": "image_folder", "dir": str(photos)}, "expected images of the 10 classes"),
        ({"batch_sice": 3}, r"data\.batch_sice: no such setting"),
        ({"source": "tfds"}, "data: source=tfds needs the name of a data set"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate(run, data)
    weights = tmp_path / "of_three_classes.weights.h5"
    LambdaResNet14(classes=3).save_weights(weights)
    with pytest.raises(ValueError, match="with 10 classes: "):
        evaluate("lambda_resnet14", weights=weights, image_size=32)


def test_another_backend_is_refused(classifier, china, on_backend):
    on_backend("jax")
    with pytest.raises(ValueError, match=r"expected Keras on tensorflow .*Received: 'jax'"):
        lambda_maps(classifier, china, 0, 0)
    on_backend("torch")
    with pytest.raises(ValueError, match="expected Keras on tensorflow or jax"):
        load_classifier("runs/x")


@pytest.mark.parametrize("others", [{}, {"name": "lambda_resnet14", "weights": "x" * 10**5}])
def test_messages_have_the_length_of_a_screen(others):
    with pytest.raises(ValueError, match="characters left out") as caught:
        train("lambda_resnet14_digits", model={"name": "x" * 10**5, **others})
    assert len(str(caught.value)) < 3000


def test_images_are_those_of_a_run(run):
    data = load_data(32, source="digits", batch_size=16)
    config = TrainConfig.from_file(run / "config.yaml")
    expected = load(config.data, 32)
    assert data.class_names == expected.class_names
    for one, other in ((data.train, expected.train), (data.test, expected.test)):
        assert one.count == other.count
        for received, wanted in zip(one.sample(3), other.sample(3), strict=True):
            np.testing.assert_array_equal(received, wanted)


def test_wrong_settings_of_images():
    with pytest.raises(ValueError, match=r"data\.sauce: no such setting\. Received: 'sauce' \(did"):
        load_data(32, sauce="digits")
    with pytest.raises(ValueError, match=r"model\.image_size: Input should be greater"):
        load_data(0)


def test_lambda_maps_are_those_of_the_preprocessed_image(classifier, china):
    names = maps_of_models.lambda_layers(classifier.model)
    view = preprocess_input(classifier.view(china))
    for name in (None, *names):
        received = lambda_maps(classifier, china, 1, 0, name)
        chosen = name or list(names)[-1]
        expected = maps_of_models.lambda_maps(classifier.model, chosen, view, 1, 0)
        np.testing.assert_array_equal(received.content, expected.content)
        np.testing.assert_array_equal(received.position, expected.position)


def test_lambda_maps_of_what_has_none(classifier, china):
    model = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Flatten()])
    with pytest.raises(ValueError, match=r"expected a network with lambda layers. Received: lam"):
        lambda_maps(replace(classifier, model=model), china, 0, 0)
