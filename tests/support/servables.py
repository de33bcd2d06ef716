"""Small models as they are exported, images for them, and what exports predict."""

from functools import partial
from pathlib import Path

import keras
import numpy as np
from PIL import Image

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import preprocessing_of
from support.networks import calibrate, randomize
from zoo.export.base import DEFAULT, Options, Runtime
from zoo.export.exporter import Check, largest_difference
from zoo.export.formats import FORMATS
from zoo.export.verify import as_in_file
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


def small_servable(name: str, **others) -> Classifier:
    """A small model, with other arguments of its constructor, that tells images apart."""
    size, arguments, scale = SMALL[name]
    keras.utils.set_random_seed(0)
    model = create_model(name, input_shape=(size, size, 3), classes=10, **arguments, **others)
    randomize(model)
    calibrate(model, preprocess_input(pixels(64, size, seed=1)))
    kernel = model.get_layer("predictions").kernel
    kernel.assign(scale * kernel)
    return Classifier(name, model, preprocessing_of(name, size), [f"class {i}" for i in range(10)])


def probabilities(runtime: Runtime, images: np.ndarray) -> np.ndarray:
    """What an export predicts, which has no other output."""
    outputs = runtime.run("serving_default", {"images": images})
    assert list(outputs) == ["probabilities"]
    return outputs["probabilities"]


def int8_difference(form: str, servable: Classifier, folder: Path, count: int, **others) -> float:
    """Writes an export in 8 bits, calibrated on images; by how much its probabilities differ."""
    files = write_images(folder, count)
    options = Options("int8", files, **others)
    FORMATS[form].write(servable, folder / "1", options)
    images = np.stack([servable.view(path) for path in files[: options.batch_size]])
    expected = {"probabilities": predict(servable.model, images)}
    check = as_in_file(Check({"images": images}, partial(largest_difference, expected)), options)
    return check.difference(FORMATS[form].runtime(folder / "1", 1).run(DEFAULT, check.inputs))


def write_images(folder: Path, count: int) -> list[Path]:
    """Writes images of random colors to a folder."""
    files = [folder / f"{i:03d}.png" for i in range(count)]
    for path, image in zip(files, pixels(count, 48), strict=True):
        Image.fromarray(image.astype("uint8")).save(path)
    return files
