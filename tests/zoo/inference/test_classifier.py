"""Photographs as viewers show them, and what a model answers."""

import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps
from sklearn.datasets import load_sample_images

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import preprocessing_of
from zoo.data.crops import resize_centre
from zoo.data.digits import digits_arrays
from zoo.inference import classifier as inference
from zoo.inference.classifier import Classifier, predict, read_photo
from zoo.registry import create_model

LABELS = ["temple", "flower", "digit"]
UPRIGHT = {  # EXIF orientation: how a camera stores an upright picture
    1: lambda image: image,
    2: ImageOps.mirror,
    3: lambda image: image.transpose(Image.Transpose.ROTATE_180),
    4: ImageOps.flip,
    5: lambda image: image.transpose(Image.Transpose.TRANSPOSE),
    6: lambda image: image.transpose(Image.Transpose.ROTATE_90),
    7: lambda image: image.transpose(Image.Transpose.TRANSVERSE),
    8: lambda image: image.transpose(Image.Transpose.ROTATE_270),
}


@pytest.fixture(scope="module")
def china() -> Image.Image:
    """A small photograph of 120 x 80 pixels."""
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


def difference(image: Image.Image, other: Image.Image) -> float:
    """Mean absolute difference of pixels."""
    assert (image.mode, image.size) == (other.mode, other.size) == ("RGB", other.size)
    return np.abs(np.asarray(image, "float64") - np.asarray(other, "float64")).mean()


@pytest.mark.parametrize("orientation", UPRIGHT)
def test_photographs_are_turned_upright(china, tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = UPRIGHT[orientation](china)
    path = saved(stored, tmp_path / "camera.jpg", exif=exif, quality=95, subsampling=0)
    assert difference(read_photo(path), china) < 3


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "LA", "CMYK", "I;16"])
def test_photographs_of_every_mode_become_rgb(china, tmp_path, mode):
    grey = china.convert("L")
    if mode == "CMYK":
        path = saved(china.convert("CMYK"), tmp_path / "photo.jpg", quality=95, subsampling=0)
    elif mode == "I;16":
        deep = Image.fromarray(np.asarray(grey).astype("uint16") * 256 + 77)
        path = saved(deep, tmp_path / "photo.png")
    else:
        path = saved(china.convert(mode), tmp_path / "photo.png")
    with Image.open(path) as stored:
        assert stored.mode == mode
    expected = {"RGBA": china, "CMYK": china, "P": china.convert("P").convert("RGB")}
    expected["1"] = china.convert("1").convert("RGB")
    assert difference(read_photo(path), expected.get(mode, grey.convert("RGB"))) < 3


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_pixels_are_white(tmp_path, mode):
    if mode == "P":
        image = Image.new("P", (4, 4), 1)
        image.putpalette([255, 255, 255, 0, 0, 0])
        image.putpixel((0, 0), 0)
        path = saved(image, tmp_path / "photo.png", transparency=b"\xff\x00")
    else:
        path = saved(Image.new(mode, (4, 4)), tmp_path / "photo.png")
    np.testing.assert_array_equal(np.asarray(read_photo(path)), np.full((4, 4, 3), 255))


def test_unreadable_photographs(china, tmp_path):
    path = saved(china, tmp_path / "cut.jpg")
    path.write_bytes(path.read_bytes()[:900])
    webp = saved(china, tmp_path / "photo.webp")
    for broken in (path, webp, tmp_path / "missing.jpg"):
        with pytest.raises(ValueError, match=f"unreadable photograph: {re.escape(str(broken))} "):
            read_photo(broken)


def test_answers_are_those_of_the_model(china, tmp_path, weights):
    photos = [
        saved(china, tmp_path / "china.png"),
        saved(china.convert("L").resize((30, 90)), tmp_path / "tall.png"),
    ]
    classifier = Classifier.from_weights("lambda_resnet14", str(weights), LABELS)
    answers = list(classifier.ask(photos, top=2))

    model = create_model("lambda_resnet14", classes=3, input_shape=(32, 32, 3), weights=weights)
    preprocessing = preprocessing_of("lambda_resnet14", 32)
    images = np.stack([preprocessing(read_photo(photo)) for photo in photos])
    expected = np.asarray(model(preprocess_input(images), training=False))
    assert np.abs(expected[0] - expected[1]).max() > 1e-4
    assert [answer.photo for answer in answers] == photos
    for answer, probabilities in zip(answers, expected, strict=True):
        order = np.argsort(-probabilities)[:2]
        assert [guess.index for guess in answer.top] == order.tolist()
        assert [guess.name for guess in answer.top] == [LABELS[i] for i in order]
        got = [guess.probability for guess in answer.top]
        np.testing.assert_allclose(got, probabilities[order], rtol=1e-4)


def test_photographs_are_read_a_few_at_a_time(china, tmp_path, weights, monkeypatch):
    photo = saved(china, tmp_path / "china.png")
    monkeypatch.setattr(inference, "BATCH_SIZE", 2)
    classifier = Classifier.from_weights("lambda_resnet14", str(weights), LABELS)
    read = []
    monkeypatch.setattr(inference, "read_photo", lambda path: read.append(path) or china)
    answers = classifier.ask([photo] * 5, top=9)
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
    classifier = Classifier.from_weights("lambda_resnet14", str(path), image_size=16)
    assert classifier.preprocessing == preprocessing_of("lambda_resnet14", 16)
    assert classifier.model.input_shape == (None, 16, 16, 3)
    assert len(classifier.class_names) == 1000
    assert classifier.class_names[285] == "Egyptian cat"


def test_weights_that_are_not_numbers(china, tmp_path, weights):
    classifier = Classifier.from_weights("lambda_resnet14", str(weights), LABELS)
    classifier.model.get_layer("predictions").bias.assign([np.nan, 0, 0])
    with pytest.raises(ValueError, match=r"lambda_resnet14 returns .* not finite"):
        list(classifier.ask([saved(china, tmp_path / "china.png")], top=1))


def test_a_run_knows_its_classes_and_what_its_test_images_went_through(run, tmp_path, china):
    classifier = Classifier.from_run(run)
    assert (classifier.name, classifier.class_names) == ("lambda_resnet14", list("0123456789"))
    (digits, _), _ = digits_arrays()
    for digit in digits[:3]:
        tested = tf.image.resize(digit, (16, 16))
        np.testing.assert_allclose(classifier.preprocessing(digit), tested, atol=1)
    (answer,) = classifier.ask([saved(china, tmp_path / "china.png")], top=10)
    assert sorted(guess.name for guess in answer.top) == list("0123456789")
    with pytest.raises(ValueError, match="folder of a finished run"):
        Classifier.from_run(tmp_path)


def test_a_run_whose_weights_are_not_finite_is_refused(run, tmp_path):
    for name in ("config.yaml", "metrics.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    model = keras.models.load_model(run / "model.keras")
    layer = model.get_layer("predictions")
    layer.bias.assign(np.full(10, np.nan))
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=r"finite weights .* Received: nan in predictions/bias"):
        Classifier.from_run(tmp_path)


def test_a_run_on_photographs_sees_them_as_in_its_test(china, monkeypatch, run):
    config = inference.run_folder.load_config(run)
    folder = {"source": "image_folder", "dir": "photos"}
    config = config.model_copy(update={"data": config.data.model_copy(update=folder)})
    monkeypatch.setattr(inference.run_folder, "load_config", lambda _: config)
    image = Classifier.from_run(run).preprocessing(china)
    np.testing.assert_array_equal(image, resize_centre(np.asarray(china), 16))


def test_predict_batches():
    """More images than one batch, in order."""
    inputs = keras.Input((4, 4, 3))
    model = keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(inputs))
    images = np.random.default_rng(0).integers(0, 256, (70, 4, 4, 3)).astype("uint8")
    expected = preprocess_input(images).mean((1, 2))
    np.testing.assert_allclose(predict(model, images), expected, atol=1e-5)
