"""Networks with packaged weights, as commands load them."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from lambda_keras.applications import preprocess_input
from lambda_keras.models.specs import CLASS_NAMES
from zoo.config import DataConfig
from zoo.inference.source.weights import Weights

FIXTURES = Path(__file__).parents[3] / "fixtures" / "fashion_mnist"
SOURCE = Weights("lambda_resnet14", "fashion_mnist")


@pytest.fixture(scope="module")
def classifier():
    return SOURCE.load()


def test_predictions_of_image_files(classifier):
    assert list(classifier.class_names) == list(CLASS_NAMES["fashion_mnist"])
    assert (classifier.image_size, classifier.preprocessing.shorter_side) == (28, 28)
    trouser = classifier(FIXTURES / "02_1.png")[0]
    assert (trouser.name, trouser.probability > 0.8) == ("Trouser", True)


def test_card():
    card = SOURCE.card()
    assert card["Weights"].startswith("lambda_keras/weights/lambda_resnet14_fashion_mnist.safet")
    assert card["Published accuracy"].endswith(" % on Fashion-MNIST, 28 x 28 pixels")
    assert SOURCE.card_sections() == {}


def test_names_of_outputs():
    """They are never renamed by the place of a folder among others."""
    names = CLASS_NAMES["fashion_mnist"]
    for known in (sorted(names), names[3:5]):
        assert SOURCE.for_data(known, 28).class_names == names
    numbers = [str(number) for number in range(10)]
    assert SOURCE.for_data(numbers, 28).class_names == numbers
    for others in (["T-shirt-top", *names[1:]], ["0", "1"]):
        with pytest.raises(
            ValueError, match=r"expected classes of 'fashion_mnist', .*: (T-|0, 1$)"
        ):
            SOURCE.for_data(others, 28)


def test_folder_of_some_of_the_classes(tmp_path):
    """Predictions are of all ten."""
    for path in FIXTURES.glob("*_[124].png"):
        folder = tmp_path / CLASS_NAMES["fashion_mnist"][int(path.stem[-1])]
        folder.mkdir(exist_ok=True)
        shutil.copy(path, folder)
    data = DataConfig(source="image_folder", dir=str(tmp_path), test_fraction=0.5)
    classifier, images = SOURCE.load_with_images(data)
    assert list(images.class_names) == ["Coat", "Pullover", "Trouser"]
    pixels, labels = images.test.sample(9)
    found = classifier.infer(preprocess_input(pixels)).argmax(-1)
    names = [classifier.class_names[one] for one in found]
    right = [name == images.class_names[one] for name, one in zip(names, labels, strict=True)]
    assert len(right) >= 4
    assert np.mean(right) > 0.7
