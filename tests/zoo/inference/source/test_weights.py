"""Networks with packaged weights, as commands load them, and model cards on weights."""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from support import runs

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import imagenet_classes
from lambda_keras.models.specs import CLASS_NAMES
from zoo.config import DataConfig
from zoo.inference.source.run import Run
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


def test_names_of_outputs():
    """They are never renamed by the place of a folder among others."""
    names = CLASS_NAMES["fashion_mnist"]
    for known in (sorted(names), names[3:5]):
        assert SOURCE.for_data(known, 28).class_names == names
    numbers = [str(number) for number in range(10)]
    for known in (numbers, numbers[::-1]):  # folders are sorted as text
        assert SOURCE.for_data(known, 28).class_names == numbers
    for others in (["T-shirt-top", *names[1:]], ["0", "1"]):
        with pytest.raises(ValueError, match=r"expected classes of 'fashion_mnist', .*: (T-|0, 1)"):
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
    right = np.array(classifier.class_names)[found] == np.array(images.class_names)[labels]
    assert len(right) >= 4
    assert right.mean() > 0.7


def write_folders(folder, names):
    for name in names:
        (folder / name).mkdir()
        for number, path in enumerate(sorted(FIXTURES.glob("*.png"))[:2]):
            shutil.copy(path, folder / name / f"{number}.png")
    return DataConfig(source="image_folder", dir=str(folder), test_fraction=0.5)


def outputs_of_a_file(count):
    """A file of weights with so many outputs, which has no names."""

    class File(Weights):
        def load(self):
            if len(self.class_names) != count:
                raise ValueError(f"with {len(self.class_names)} classes")
            return self.class_names

    return File("lambda_resnet14", "file.weights.h5", image_size=28)


def test_folders_of_numbers_and_weights_from_a_file(tmp_path, capsys):
    data = write_folders(tmp_path, map(str, range(12)))
    outputs_of_a_file(12).load_with_images(data)
    line = "warning: classes are sorted as text: output 2 is class '10', not '2'\n"
    assert line in capsys.readouterr().err


def test_wordnet_folders_and_weights_of_all_of_imagenet_from_a_file(tmp_path, capsys):
    ids = [number for number, _ in imagenet_classes()]
    data = write_folders(tmp_path, [ids[7], ids[3]])
    found, images = outputs_of_a_file(1000).load_with_images(data)
    assert (found, images.class_names) == (ids, (ids[3], ids[7]))
    assert outputs_of_a_file(2).load_with_images(data)[0] == (ids[3], ids[7])
    with pytest.raises(ValueError, match="with 2 classes"):
        outputs_of_a_file(3).load_with_images(data)
    assert "sorted" not in capsys.readouterr().err


def test_origin_of_a_run(run, tmp_path):
    origin = Run(run).card()
    assert origin["Weights"] == "run quick, moving averages, decay 0.9"
    assert "`import lambda_keras` comes before" in origin["Keras model"]
    assert origin["Trained on"] == "digits, 1,437 images, 1 epochs"
    assert origin["Test accuracy"] == "0.1000 (360 images)"
    raw = runs.changed(run, tmp_path / "raw", training={"ema": None})
    assert Run(raw).card()["Weights"] == "run raw, not averaged"


def test_origin_of_weights(tmp_path):
    weights = tmp_path / "random.weights.h5"
    weights.write_bytes(b"content")
    origin = Weights("lambda_resnet14", str(weights))
    digest = hashlib.sha256(b"content").hexdigest()
    assert origin.card()["Weights"] == f"random.weights.h5, SHA-256 {digest}"
    assert Weights("x", "hf://a/b").card()["Weights"] == "hf://a/b"
    published = Weights("lambda_resnet26t", "imagenet").card()
    assert "huggingface.co/timm/lambda_resnet26t" in published["Weights"]
    assert published["License"] == "Apache-2.0"
    assert published["Published accuracy"].startswith("79.126 %")
