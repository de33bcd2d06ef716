"""Images as viewers show them, and what a model answers."""

import os
import re
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_images

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import Preprocessing, preprocessing_of
from zoo.config.model_options import ClassifierOptions
from zoo.data.crops import decode_center
from zoo.inference import classifier as inference
from zoo.inference import images as image_reading
from zoo.inference.classifier import Classifier, predict
from zoo.inference.source.kinds import choose
from zoo.inference.source.run import Run
from zoo.inference.source.weights import Weights
from zoo.registry import create_model

LABELS = ["temple", "flower", "digit"]


@pytest.fixture(scope="module")
def china() -> Image.Image:
    """A small image of 120 x 80 pixels."""
    return Image.fromarray(load_sample_images().images[0]).resize((120, 80))


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    """Random weights of lambda_resnet14 for three classes."""
    path = tmp_path_factory.mktemp("weights") / "random.weights.h5"
    keras.utils.set_random_seed(1)
    create_model("lambda_resnet14", classes=3, input_shape=(32, 32, 3)).save_weights(path)
    return path


def saved(image: Image.Image, path: Path, **options) -> Path:
    image.save(path, **options)
    return path


def test_unreadable_images(china, tmp_path):
    path = saved(china, tmp_path / "cut.jpg")
    path.write_bytes(path.read_bytes()[:900])
    heic = tmp_path / "photo.heic"
    heic.write_bytes(b"\0\0\0\x18ftypheic" + bytes(99))
    deep = saved(Image.new("I;16", (9, 9), 40_000), tmp_path / "deep.tiff")
    pipe = tmp_path / "pipe.jpg"
    os.mkfifo(pipe)
    classifier = Classifier("none", keras.Model(), Preprocessing(16, 1), LABELS)
    for broken in (path, heic, deep, pipe, tmp_path / "missing.jpg"):
        with pytest.raises(ValueError, match=f"unreadable image: {re.escape(str(broken))} "):
            classifier.view(broken)


def test_answers_are_those_of_the_model(china, tmp_path, weights):
    photos = [
        saved(china, tmp_path / "china.png"),
        saved(china.convert("L").resize((30, 90)), tmp_path / "tall.png"),
    ]
    classifier = Weights("lambda_resnet14", str(weights), LABELS).load()
    answers = list(classifier.predict_files(photos, top=2))

    model = create_model("lambda_resnet14", classes=3, input_shape=(32, 32, 3), weights=weights)
    preprocessing = preprocessing_of("lambda_resnet14", 32)
    images = np.stack([decode_center(photo.read_bytes(), preprocessing) for photo in photos])
    expected = np.asarray(model(preprocess_input(images), training=False))
    assert np.abs(expected[0] - expected[1]).max() > 1e-4
    assert [answer.photo for answer in answers] == photos
    for answer, probabilities in zip(answers, expected, strict=True):
        order = np.argsort(-probabilities)[:2]
        assert [guess.index for guess in answer.top] == order.tolist()
        assert [guess.name for guess in answer.top] == [LABELS[i] for i in order]
        got = [guess.probability for guess in answer.top]
        np.testing.assert_allclose(got, probabilities[order], rtol=1e-4)


def test_images_are_read_a_few_at_a_time(china, tmp_path, weights, monkeypatch):
    photo = saved(china, tmp_path / "china.png")
    monkeypatch.setattr(inference, "BATCH_SIZE", 2)
    classifier = Weights("lambda_resnet14", str(weights), LABELS).load()
    read = []
    monkeypatch.setattr(image_reading, "check_header", read.append)
    answers = classifier.predict_files([photo] * 5, top=9)
    first = next(answers)
    assert len(read) == 2
    rest = list(answers)
    assert (len(rest), len(read)) == (4, 5)
    for answer in rest:
        got = [guess.probability for guess in answer.top]
        np.testing.assert_allclose(got, [guess.probability for guess in first.top], rtol=1e-5)
        assert sum(got) == pytest.approx(1)


def test_weights_for_another_size_and_for_imagenet(tmp_path):
    path = tmp_path / "random.weights.h5"
    create_model("lambda_resnet14", input_shape=(16, 16, 3)).save_weights(path)
    classifier = Weights("lambda_resnet14", str(path), image_size=16).load()
    assert classifier.preprocessing == preprocessing_of("lambda_resnet14", 16)
    assert classifier.model.input_shape == (None, 16, 16, 3)
    assert len(classifier.class_names) == 1000
    assert classifier.class_names[285] == "Egyptian cat"


def test_weights_that_are_not_numbers(china, tmp_path, weights):
    classifier = Weights("lambda_resnet14", str(weights), LABELS).load()
    classifier.model.get_layer("predictions").bias.assign([np.nan, 0, 0])
    with pytest.raises(ValueError, match=r"lambda_resnet14 returns .* not finite"):
        list(classifier.predict_files([saved(china, tmp_path / "china.png")], top=1))


def test_a_run_knows_its_classes_and_what_its_test_images_went_through(run, tmp_path, china):
    classifier = Run(run).load()
    assert (classifier.name, classifier.class_names) == ("lambda_resnet14", list("0123456789"))
    assert classifier.preprocessing == Preprocessing(16, 1, "bilinear")
    (answer,) = classifier.predict_files([saved(china, tmp_path / "china.png")], top=10)
    assert sorted(guess.name for guess in answer.top) == list("0123456789")
    with pytest.raises(ValueError, match="folder of a finished run"):
        Run(tmp_path).load()


def test_a_run_whose_weights_are_not_finite_is_refused(run, tmp_path):
    for name in ("config.yaml", "metrics.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    model = keras.models.load_model(run / "model.keras")
    layer = model.get_layer("predictions")
    layer.bias.assign(np.full(10, np.nan))
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=r"finite weights .* Received: nan in predictions/bias"):
        Run(tmp_path).load()


@pytest.mark.parametrize(
    ("name", "labels", "message"),
    [
        ("lambda_resnet14", None, r"1000 classes of ImageNet \(--labels names others\): .*do not"),
        ("lambda_resnet14", "a\nb\n", "with 2 classes: .*do not fit the model"),
        ("mobilenet_v2", "a\nb\nc\n", "with 3 classes: .*do not fit the model"),
    ],
)
def test_weights_that_do_not_fit(weights, tmp_path, name, labels, message):
    path = tmp_path / "labels.txt"
    path.write_text(labels or "")
    source = ClassifierOptions.model_construct(
        run=None, model=name, weights=str(weights), labels=labels and path, image_size=32
    )
    with pytest.raises(ValueError, match=message):
        choose(source).load()


def test_predict_batches():
    """More images than one batch, in order."""
    inputs = keras.Input((4, 4, 3))
    model = keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(inputs))
    images = np.random.default_rng(0).integers(0, 256, (70, 4, 4, 3)).astype("uint8")
    expected = preprocess_input(images).mean((1, 2))
    np.testing.assert_allclose(predict(model, images), expected, atol=1e-5)
