"""Published weights: those in the package load; what the table states is that of a second copy."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from support import needs, networks

from lambda_keras import applications
from lambda_keras.applications import LambdaResNet14, preprocessing_of
from lambda_keras.models.specs import CLASS_NAMES, NETWORKS, ROWS
from lambda_keras.weights import files

PACKAGED = [(row, name) for row in ROWS for name, one in row.weights.items() if one.is_packaged]
FIXTURES = Path(__file__).parents[1] / "fixtures" / "fashion_mnist"
NAME, WEIGHTS = "lambda_resnet14", "fashion_mnist"
# A second copy of the table: nothing else can notice a typo.
PAGES = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text())


@pytest.fixture(scope="module")
def whole():
    return LambdaResNet14(weights=WEIGHTS)


def test_accuracy_on_test_images(whole):
    """On the first images of the test set."""
    paths = sorted(FIXTURES.glob("*.png"))
    images = np.stack([np.asarray(Image.open(path).convert("RGB")) for path in paths])
    labels = [CLASS_NAMES[WEIGHTS][int(path.stem[-1])] for path in paths]
    predictions = whole.predict(applications.preprocess_input(images), verbose=0)
    found = applications.decode_predictions(predictions, 1, WEIGHTS)
    assert len(labels) == 20
    assert [name for ((_, name, _),) in found] == labels
    np.testing.assert_allclose(predictions.max(-1), [score for ((_, _, score),) in found])


@pytest.mark.one_backend
@pytest.mark.parametrize(("row", "name"), PACKAGED)
def test_file_card_and_row_agree(row, name):
    published = row.weights[name]
    path = files.find_weights(name, row.name)
    assert path.stat().st_size <= 2_000_000
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    card = path.with_suffix(".md").read_text("utf-8")
    assert published.checksum == checksum
    assert f"`{checksum}`" in card
    first, *_ = re.search(r"Test accuracy \| (.*) % of", card)[1].split(" (seed")
    assert published.top1 == float(first)
    seen = str(preprocessing_of(row.name, published.image_size, name))
    texts = (f"| {seen} |", f'weights="{name}"', published.license, "licen", "zoo.train", "seed 0")
    for text in texts:
        assert text in card


def test_classes_are_those_of_the_weights(whole):
    assert whole.output_shape == (None, 10)
    assert LambdaResNet14().output_shape == (None, 1000)
    message = "expected classes=10, include_top=False or adapt_weights=True .*: classes=1000"
    with pytest.raises(ValueError, match=message):
        LambdaResNet14(weights=WEIGHTS, classes=1000)


def test_features_and_other_classes(whole):
    features = LambdaResNet14(include_top=False, weights=WEIGHTS, pooling="avg")
    other = LambdaResNet14(weights=WEIGHTS, classes=3, adapt_weights=True)
    for layer in features.layers:
        for model in (whole, other):
            networks.assert_same(layer, model.get_layer(layer.name))
    assert other.output_shape == (None, 3)


@pytest.mark.one_backend
def test_damaged_file_is_refused(monkeypatch):
    row = NETWORKS[NAME]
    damaged = replace(row.weights[WEIGHTS], checksum="0" * 64)
    monkeypatch.setitem(NETWORKS, NAME, replace(row, weights={WEIGHTS: damaged}))
    with pytest.raises(ValueError, match=r"expected intact lambda_keras/weights/\S+ of SHA-256 0"):
        LambdaResNet14(weights=WEIGHTS)


@pytest.mark.one_backend
def test_preprocessing_is_the_whole_image_as_in_training():
    assert preprocessing_of(NAME, 28).crop_fraction == 28 / 60  # of other weights
    photo = np.zeros((28, 84, 3), "uint8")
    photo[:, :28] = 255
    image = preprocessing_of(NAME, 28, WEIGHTS)(photo)
    assert image.shape == (28, 28, 3)
    np.testing.assert_array_equal(image[:, [4, 14]], np.tile([[[255], [0]]], (28, 1, 3)))


@pytest.mark.one_backend
def test_accuracy_size_and_crop():
    assert {
        f"{row.name}, {name}": [one.top1, one.image_size, one.crop_fraction]
        for row in ROWS
        for name, one in row.weights.items()
        if not one.is_packaged
    } == PAGES


@pytest.mark.one_backend
@pytest.mark.filterwarnings("ignore::DeprecationWarning:tf_keras")
def test_checksums_of_resnet_rs():
    hashes = needs.package("tf_keras.src.applications.resnet_rs").WEIGHT_HASHES
    compared = [
        (one.checksum, hashes[one.repository.rpartition("/")[2]])
        for row in ROWS
        for one in row.weights.values()
        if row.name.startswith("resnet_rs")
    ]
    assert len(compared) == 11
    assert [one for one, _ in compared] == [other for _, other in compared]
