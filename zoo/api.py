"""The commands as functions: `from zoo.api import evaluate, export, load, predict, train`.

Also `load_data`, which loads the training and test images, and `lambda_maps`. Settings are those of
the commands; docs/python.md has examples. Training and evaluation run on TensorFlow, or on JAX with
KERAS_BACKEND=jax set before Keras is imported; detectors and lambda maps need TensorFlow.
"""

import os
import reprlib
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lambda_keras.models.specs import NETWORKS
from lambda_keras.weights.hub import PREFIX
from zoo.backend import BACKENDS, use_default_backend
from zoo.cli.main import call
from zoo.cli.tasks import choose_source, find_task, is_published
from zoo.config import TrainConfig
from zoo.errors import errors_of, require
from zoo.files import location

if TYPE_CHECKING:
    from zoo.data.load import ImageData
    from zoo.inference.classifier import Classifier
    from zoo.inference.lambda_maps import LambdaMaps

Source = str | PathLike[str]


def load(
    source: Source,
    weights: Source | None = None,
    class_names: Sequence[str] | None = None,
    image_size: int | None = None,
) -> Any:
    """Loads a trained network of any task, as `python -m zoo.predict` does.

    Args:
        source: Folder of a finished run, local or gs://; the folder of a published network, or its
            address `"hf://owner/name"`; or with `weights` the name of a model, one of
            `zoo.registry.list_models()`.
        weights: Weights of a model by its name: `"imagenet"`, `"hf://owner/name"`, or a file.
            Defaults to None.
        class_names: Names of the classes of `weights`. Defaults to the classes of published
            weights, or the 1000 of ImageNet.
        image_size: Height and width of images in pixels. Defaults to None: the size
            that the weights were published for.

    Returns:
        A `zoo.inference.classifier.Classifier`, or the network of another task, such as a detector.
        Called with images of any size, it returns the most probable classes or the objects of each.

    Raises:
        ValueError: If there is no such network, or it is damaged, or the weights do not fit.
        FileNotFoundError: If the hub cannot be reached, and the network is not cached.

    Example:
    >>> import tempfile
    >>> import numpy as np
    >>> from lambda_keras.applications import LambdaResNet14
    >>> from zoo.api import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     LambdaResNet14(classes=2).save_weights(f"{folder}/mine.weights.h5")
    ...     classifier = load(
    ...         "lambda_resnet14", f"{folder}/mine.weights.h5", ["cat", "dog"], image_size=32
    ...     )
    >>> scores = classifier(np.zeros((48, 64, 3), "uint8"))
    >>> sorted(score.name for score in scores)
    ['cat', 'dog']
    """
    return choose_source(_named(source, weights, class_names, image_size)).load()


def load_classifier(source: Source, *arguments: Any, **named: Any) -> "Classifier":
    """Loads a classifier, and refuses detectors; arguments and errors as for `load`."""
    settings = _named(source, *arguments, **named)
    from zoo.inference.source.kinds import choose

    return choose(settings).load()


def predict(source: Source, images: Any, **options: Any) -> list[Any]:
    """Runs a network on images: `load(source)(images, **options)`.

    Args:
        source: Place of the network, as for `load`.
        images: One image or several.
        **options: `top` for a classifier, `threshold` for a detector.
    """
    return load(source)(images, **options)


def train(config: Source | None = None, **settings: Any) -> dict[str, Any]:
    """Trains a model and writes a run folder, as `python -m zoo.train` does.

    An interrupted run resumes when it is called again with the same settings.

    Args:
        config: YAML file, or the name of a configuration of the zoo, such as
            `"lambda_resnet14_digits"`. Defaults to None.
        **settings: Fields of `zoo.config.TrainConfig`, or of another task's configuration with its
            name as `task` or in `config`, sections as dictionaries; they override `config`:
            `output_dir="runs/mine", training={"epochs": 10}`.

    Returns:
        Content of `metrics.json` in the run folder: test metrics, counts and class names.

    Raises:
        ValueError: If a setting is wrong, the folder is in use, or images or weights do not fit.

    Example:
    >>> from zoo.api import train
    >>> train("lambda_resnet14_digits", training={"epochs": 0})
    Traceback (most recent call last):
    ...
    ValueError: training.epochs: Input should be greater than or equal to 1. Received: 0
    """
    given = settings if config is None else {"config": config, **settings}
    return call("train", find_task(given), given)


def evaluate(
    source: Source,
    data: Mapping[str, Any] | None = None,
    weights: Source | None = None,
    image_size: int | None = None,
    averaged: bool = True,
) -> Any:
    """Evaluates a network on test images, as `python -m zoo.evaluate` does.

    Args:
        source: Place of the network, as for `load`.
        data: Test images. For a classifier, fields of `zoo.config.DataConfig`; they override
            a run's own, as in `{"name": "imagenet_v2"}`, or name the images without a run. For a
            detector, `dir`, a folder of shards, and `batch_size`. Defaults to None: the images of
            the run, else digits.
        weights: Weights, as for `load`; class names come from the data.
        image_size: Height and width of images, as for `load`.
        averaged: Whether to use the EMA weights, if a run has them. Defaults to True.

    Returns:
        A `zoo.evaluate.metrics.Evaluation` of a classifier, with `top1`, `top5`, `loss`,
        `confusion`, `by_class`; for `imagenet2012_corrupted`, the errors of every corruption; for a
        detector, its results, with `figures`.

    Raises:
        ValueError: If there is no such network, or the images do not fit it.
    """
    if not isinstance(data, Mapping | None):
        raise ValueError(f"data: expected a dictionary of settings. Received: {reprlib.repr(data)}")
    require(isinstance(averaged, bool), "averaged: expected True or False", reprlib.repr(averaged))
    named = _named(source, weights, image_size=image_size)
    values = _given(named) | {"data": dict(data or {})} | ({} if averaged else {"averaged": False})
    return call("evaluate", find_task(vars(named)), values, "measure")[1]


def export(source: Source, output: Source = "exports", **settings: Any) -> Path:
    """Exports a network for serving, as `python -m zoo.export` does.

    Args:
        source: Place of the network, as for `load`.
        output: Folder of all exports. Defaults to "exports".
        **settings: Other settings of the command, such as `format="onnx"`, or `weights` of a model
            by its name.

    Returns:
        The new folder.

    Raises:
        ValueError: If there is no such network, or the export differs from it.
    """
    named = _named(source, settings.pop("weights", None))
    values = {**_given(named), "output": output, **settings}
    return call("export", find_task(vars(named)), values)


def load_data(image_size: int, **settings: Any) -> "ImageData":
    """Finds the images that classifiers are trained and tested on, without training.

    Args:
        image_size: Height and width of images in pixels.
        **settings: Fields of `zoo.config.DataConfig`, as `source="image_folder", dir="images"`.

    Returns:
        A `zoo.data.load.ImageData` with `train`, `test` and `class_names`. The first two have
        `count`; `sample(limit)`, the first images in [0, 255] and their labels; and
        `batches(batch_size, classes)`, preprocessed, for `model.fit` and `evaluate`. Training
        batches never end, since every epoch has another order and other augmentation: pass
        `steps_per_epoch=data.train.steps_per_epoch(batch_size)` to `model.fit`.

    Raises:
        ValueError: If a setting is wrong, or the images are missing or unreadable.

    Example:
    >>> from zoo.api import load_data
    >>> data = load_data(32, source="digits")
    >>> images, labels = data.test.sample(5)
    >>> images.shape, data.test.count
    ((5, 32, 32, 3), 360)
    >>> import keras
    >>> model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10, "softmax")])
    >>> model.compile("sgd", "categorical_crossentropy")
    >>> history = model.fit(
    ...     data.train.batches(256, 10),
    ...     steps_per_epoch=data.train.steps_per_epoch(256),
    ...     epochs=2,
    ...     verbose=0,
    ... )
    """
    config = TrainConfig.from_values({"model": {"image_size": image_size}, "data": settings})
    use_default_backend(BACKENDS[:2])
    from zoo.data.load import load_data

    return load_data(config.data, image_size)


def lambda_maps(
    classifier: "Classifier", image: Any, row: int, column: int, layer: str | None = None
) -> "LambdaMaps":
    """Computes the weight of every input position in a lambda layer's output at one position.

    Args:
        classifier: A classifier of `load`, on TensorFlow.
        image: The path of an image file, a Pillow image, or a uint8 array `(height, width, 3)`.
        row: Row of the position in the layer's grid, from 0.
        column: Column of the position, from 0.
        layer: Name of a lambda layer of `classifier.model`. Defaults to None: the last one.

    Returns:
        A `zoo.inference.lambda_maps.LambdaMaps`: `content` and `position`, arrays `(heads, height,
        width)`, or None for a layer without such lambdas.

    Raises:
        ValueError: If there is no such layer or position, or the image is unreadable.
    """
    use_default_backend(BACKENDS[:1])
    from lambda_keras.applications import preprocess_input
    from zoo.inference import lambda_maps
    from zoo.inference.classifier import Classifier

    if not isinstance(classifier, Classifier):
        given = reprlib.repr(classifier)
        raise ValueError(f"classifier: expected a classifier of load. Received: {given}")
    names = list(lambda_maps.lambda_layers(classifier.model))
    require(names, "expected a network with lambda layers", classifier.name)
    view = preprocess_input(classifier.view(image))
    name = names[-1] if layer is None else layer
    return lambda_maps.lambda_maps(classifier.model, name, view, row, column)


def _given(settings: SimpleNamespace) -> dict[str, Any]:
    return {name: value for name, value in vars(settings).items() if value is not None}


def _named(
    source: Source, weights: Source | None = None, class_names: Any = None, image_size: Any = None
) -> SimpleNamespace:
    """Returns the settings that name a network, after checking the form of its places."""
    places = {"source": source} if weights is None else {"source": source, "weights": weights}
    for name, place in places.items():
        with errors_of(name):
            if not str(place).startswith(PREFIX):
                location(place)
    use_default_backend(BACKENDS[:2])
    name = os.fspath(source)
    settings = {"class_names": class_names, "image_size": image_size}
    if weights is not None:
        return SimpleNamespace(run=None, model=name, weights=str(weights), **settings)
    expected = f"weights: expected 'imagenet', or a file of weights for {name}: without weights it"
    require(name not in NETWORKS or os.path.isdir(name), f"{expected} knows nothing", "None")
    expected = "expected class_names with weights alone: runs and published networks have their own"
    require(class_names is None, expected, f"weights=None for {name!r}")
    run, model = (None, name) if is_published(name) else (location(name), None)
    return SimpleNamespace(run=run, model=model, weights=None, **settings)
