"""Small models as they are exported, and what every format of them has to answer."""

from pathlib import Path

import keras
import numpy as np
from PIL import Image

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import preprocessing_of
from support.networks import calibrate, randomize
from zoo.export.runtimes import run
from zoo.inference.classifier import Classifier, predict
from zoo.registry import create_model

# Every kind of layer, and position lambdas on large and on small maps: image size, arguments, and
# by how much larger a classifier answers of different images differ by a tenth or more, rounding
# by less than 1e-5.
SMALL = {"lambda_resnet14": (32, {}, 5), "lambda_mobilenet_v2": (32, {"alpha": 0.35}, 3)}


def pixels(count: int, size: int, seed: int = 0) -> np.ndarray:
    """Random patches in [0, 255], coarse enough to survive the strides of a network."""
    patches = np.random.default_rng(seed).uniform(0, 255, (count, 4, 4, 3))
    return patches.repeat(size // 4, 1).repeat(size // 4, 2).astype("float32")


def small_servable(name: str, classes: int = 10, **others) -> Classifier:
    """A small model, with other arguments of its constructor, that tells images apart."""
    size, arguments, scale = SMALL[name]
    keras.utils.set_random_seed(0)
    model = create_model(name, input_shape=(size, size, 3), classes=classes, **arguments, **others)
    randomize(model)
    calibrate(model, preprocess_input(pixels(64, size, seed=1)))
    kernel = model.get_layer("predictions").kernel
    kernel.assign(scale * kernel)
    names = [f"class {i}" for i in range(classes)]
    return Classifier(name, model, preprocessing_of(name, size), names)


def answers(format_name: str, folder: Path, images: np.ndarray) -> np.ndarray:
    """Outputs of an export in a process that has its runtime alone."""
    outputs = run(format_name, folder, {"serving_default": {"images": images}})
    assert list(outputs["serving_default"]) == ["probabilities"]
    return outputs["serving_default"]["probabilities"]


def assert_answers_like_keras(servable: Classifier, format_name: str, folder: Path) -> None:
    """Predicts a batch of 32, the largest that is sent at once, and 3 images more."""
    images = pixels(35, servable.image_size)
    expected = predict(servable.model, images)
    assert expected.std(axis=0).max() > 0.01  # else any answer would do
    np.testing.assert_allclose(answers(format_name, folder, images), expected, rtol=0, atol=1e-5)


def write_images(folder: Path, count: int) -> list[Path]:
    """Writes images of random colors to a folder."""
    files = [folder / f"{i:03d}.png" for i in range(count)]
    for path, image in zip(files, pixels(count, 48), strict=True):
        Image.fromarray(image.astype("uint8")).save(path)
    return files
