"""One file is the same pixels to the network, whatever command shows it."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps
from sklearn.datasets import load_digits, load_sample_images
from support.record_files import write_tfrecords

from lambda_keras.applications.preprocessing import preprocessing_of
from lambda_keras.models.specs import IMAGENET_MEAN, IMAGENET_STD, STAGES
from zoo import run_folder
from zoo.cli.tasks import TASKS, load
from zoo.config import DataConfig, TrainConfig
from zoo.data.load import load_data
from zoo.evaluate.metrics import evaluate
from zoo.export import graph
from zoo.export.base import Options
from zoo.export.saved_model import SavedModel
from zoo.inference.source.run import Run
from zoo.inference.source.weights import Weights

SIZE = 8
VALUES = SIZE * SIZE * 3
CLASSES = VALUES + 1
NAME = "lambda_resnet26t"


def mirror() -> keras.Model:
    """A network of which each class is a value of the image; the last one makes their sum 1."""
    layers = keras.layers
    inputs = outputs = keras.Input((SIZE, SIZE, 3))
    for stage in STAGES:
        outputs = layers.Identity(name=stage)(outputs)
    means = {"mean": IMAGENET_MEAN, "variance": np.square(IMAGENET_STD)}
    outputs = layers.Normalization(**means, invert=True)(outputs)
    outputs = layers.Rescaling(1 / VALUES)(layers.Flatten()(outputs))
    rest = layers.Dense(1, kernel_initializer="ones")(outputs)
    outputs = layers.Concatenate()([outputs, layers.Rescaling(-1, 1)(rest)])
    return keras.Model(inputs, layers.ReLU(name="predictions")(outputs))


def pixels(classes, scores) -> np.ndarray:
    values = np.empty(CLASSES)
    values[np.asarray(classes)] = scores
    return (values[:-1] * VALUES * 255).reshape(SIZE, SIZE, 3)


class Mirrors(Weights):
    create_model = staticmethod(lambda *_, **__: mirror())


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> list[Path]:
    """A JPEG without and with each EXIF orientation, a transparent PNG, a small grey one."""
    folder = tmp_path_factory.mktemp("photos")
    china = Image.fromarray(load_sample_images().images[0]).resize((90, 61))
    images = {"ordinary.jpg": china, **{f"orientation {i}.jpg": china for i in range(1, 9)}}
    transparent = china.copy()
    transparent.putalpha(Image.linear_gradient("L").resize(china.size))
    images["transparent.png"] = transparent
    images["digit.png"] = Image.fromarray((load_digits().images[7] * 15.9).astype("uint8"))
    for name, image in images.items():
        exif = Image.Exif()
        if name.startswith("orientation"):
            exif[0x0112] = int(name[12])
        image.save(folder / name, exif=exif)
    return [folder / name for name in images]


SLOW = [pytest.param(resize, marks=pytest.mark.slow) for resize in ("crop", "squash", "weights")]


@pytest.fixture(params=["pad", *SLOW])
def loaded(request, photos, tmp_path):
    """A model of a run, by its resize, or of published weights, and the test images of each."""
    resize = {} if request.param == "weights" else {"resize": request.param}
    examples = [(photo.read_bytes(), number) for number, photo in enumerate(photos)]
    for part in ("train", "validation"):
        write_tfrecords(tmp_path / "records" / f"{part}-00000-of-00001", examples)
    place = {"source": "tfrecord", "dir": str(tmp_path / "records"), **resize}
    records = DataConfig(classes=CLASSES, batch_size=4, **place)
    for number, photo in enumerate(photos):
        for part in ("train", "val"):
            folder = tmp_path / "folder" / part / f"{number:02}"
            folder.mkdir(parents=True)
            (folder / photo.name).hardlink_to(photo)
    files = DataConfig(source="image_folder", dir=str(tmp_path / "folder"), batch_size=1, **resize)
    names = [str(i) for i in range(CLASSES)]
    if request.param == "weights":
        classifier = Mirrors(NAME, "a.weights.h5", names, SIZE).load()
        evaluated = Mirrors(NAME, "a.weights.h5", image_size=SIZE).load_with_images(records)
        preprocessing = preprocessing_of(NAME, SIZE)
    else:
        model = {"name": NAME, "image_size": SIZE}
        config = TrainConfig(output_dir=tmp_path / "run", model=model, data=records)
        run = run_folder.start(config)
        mirror().save(run / run_folder.MODEL)
        counts = {"test_images": len(photos), "training_images": len(photos)}
        run_folder.write_metrics(run, {"class_names": names, "test": {"accuracy": 0.5}, **counts})
        classifier = Run(run).load()
        evaluated = Run(run).load_with_images(records)
        preprocessing = None
    return classifier, evaluated, load_data(files, SIZE, preprocessing=preprocessing).test


def test_all_commands_see_the_same_pixels(photos, loaded, tmp_path, monkeypatch):
    classifier, (evaluated, data), tested = loaded
    seen = {}

    batches = list(tested.batches(1, len(photos)))
    outputs = {int(np.argmax(label)): evaluated.model(image)[0] for image, label, _ in batches}
    seen["training"] = [pixels(range(CLASSES), outputs[i]) for i in range(len(photos))]

    found = {}
    ask = evaluated.infer
    vars(evaluated)["infer"] = lambda images: found.setdefault(len(found), ask(images))
    labels = evaluate(evaluated, data.test, 4).labels.tolist()
    outputs = dict(zip(labels, np.concatenate(list(found.values())), strict=False))
    seen["evaluate"] = [pixels(range(CLASSES), outputs[i]) for i in range(len(photos))]

    seen["predict"] = [
        pixels([score.index for score in top], [score.probability for score in top])
        for top in classifier(photos, CLASSES)
    ]

    monkeypatch.setattr(graph, "TOP", CLASSES)
    SavedModel().write(classifier, tmp_path / "export", Options())
    signature = tf.saved_model.load(str(tmp_path / "export")).signatures["image_bytes"]

    answers = signature(image_bytes=tf.constant([photo.read_bytes() for photo in photos]))
    seen["export"] = list(map(pixels, answers["classes"].numpy(), answers["scores"].numpy()))

    if part := TASKS["classification"].parts.get("demo"):
        page = load(part.partition(":")[0])
        monkeypatch.setattr(page, "TOP", CLASSES)
        answers = [page.Demo(classifier).classify(str(photo)) for photo in photos]
        seen["demo"] = [pixels([*map(int, one)], [*one.values()]) for one in answers]

    assert len(seen) >= 4
    for number, photo in enumerate(photos):
        expected = ImageOps.exif_transpose(Image.open(photo)).convert("RGBA")
        expected = Image.alpha_composite(Image.new("RGBA", expected.size, "white"), expected)
        expected = classifier.preprocessing(expected)
        for path in seen:
            assert np.abs(seen[path][number] - expected).mean() < 1
            for other in seen:
                np.testing.assert_allclose(seen[path][number], seen[other][number], atol=1e-3)
