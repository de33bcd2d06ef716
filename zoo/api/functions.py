"""Functions of `zoo.api`: thin wrappers around the code of the commands."""

import os
import reprlib
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lambda_keras.weights.hub import PREFIX
from zoo.cli.model_options import is_published
from zoo.cli.run import BACKENDS, use_default_backend
from zoo.config import RunConfig, TrainConfig
from zoo.config.detection import DetectionConfig
from zoo.config.task import (
    CLASSIFICATION,
    DETECTION,
    SOURCES,
    choose_source,
    network_task,
    read_task,
    row_of_task,
    task_module,
)
from zoo.files import location
from zoo.registry import TABLE

if TYPE_CHECKING:
    from zoo.detection.detector import Detector
    from zoo.inference.classifier import Classifier

Source = str | PathLike[str]
EVALUATE = {CLASSIFICATION: "zoo.evaluate.classification", DETECTION: "zoo.evaluate.detection"}
EXPORT = {CLASSIFICATION: "zoo.export.classification", DETECTION: "zoo.export.detection"}
TRAIN = {CLASSIFICATION: "zoo.train.classification", DETECTION: "zoo.train.detection"}
CONFIGS: dict[str, type[RunConfig]] = {CLASSIFICATION: TrainConfig, DETECTION: DetectionConfig}


def load(
    source: Source,
    weights: Source | None = None,
    class_names: Sequence[str] | None = None,
    image_size: int | None = None,
) -> "Classifier | Detector":
    """Loads a trained network, a classifier or a detector, as `python -m zoo.predict` does.

    Args:
        source: Folder of a finished run, local or gs://; a folder that `zoo.publish` wrote, or
            `"hf://owner/name"`, where it uploaded one; or with `weights` the name of a model, one
            of `zoo.registry.list_models()`.
        weights: Weights of a model by its name: `"imagenet"`, `"hf://owner/name"`, or a file.
            Defaults to None.
        class_names: Names of the classes of `weights`. Defaults to the 1000 of ImageNet.
        image_size: Height and width of images in pixels, for `weights`. Defaults to None: the size
            that the weights were published for.

    Returns:
        A `zoo.inference.classifier.Classifier` or a `zoo.detection.detector.Detector`. Called with
        paths of image files, Pillow images, or uint8 arrays of shape `(height, width, 3)`, RGB,
        a classifier returns the most probable classes of each, as `ClassScore(index, name,
        probability)`, and a detector its objects, as dictionaries with `name`, `score`, `bbox` and
        maybe `segmentation`. Both resize images themselves.

    Raises:
        ValueError: If there is no such network, or it is damaged, or the weights do not fit.
        FileNotFoundError: If the hub cannot be reached, and the network is not cached.

    Example:
    >>> from zoo.api import load
    >>> load("nowhere")
    Traceback (most recent call last):
    ...
    ValueError: run: expected the folder of a finished run. Received: 'nowhere'
    """
    named = _named(source, weights, class_names=class_names, image_size=image_size)
    return choose_source(named).load()


def load_classifier(
    source: Source,
    weights: Source | None = None,
    class_names: Sequence[str] | None = None,
    image_size: int | None = None,
) -> "Classifier":
    """Loads a classifier; arguments are those of `load`.

    Raises:
        ValueError: If there is no such network, or it is damaged, a detector, or the weights do
            not fit.
        FileNotFoundError: If the hub cannot be reached, and the network is not cached.

    Example:
    >>> import tempfile
    >>> import numpy as np
    >>> from lambda_keras.applications import LambdaResNet14
    >>> from zoo.api import load_classifier
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     LambdaResNet14(classes=2).save_weights(f"{folder}/mine.weights.h5")
    ...     classifier = load_classifier(
    ...         "lambda_resnet14", f"{folder}/mine.weights.h5", ["cat", "dog"], image_size=32
    ...     )
    >>> scores = classifier(np.zeros((48, 64, 3), "uint8"))
    >>> sorted(score.name for score in scores)
    ['cat', 'dog']
    """
    named = _named(source, weights, class_names=class_names, image_size=image_size)
    return task_module(CLASSIFICATION, SOURCES).choose(named).load()


def predict(source: Source, images: Any, **options: Any) -> list[Any]:
    """Runs a network on images: `load(source)(images, **options)`.

    Args:
        source: Place of the network, as for `load`.
        images: One image or several.
        **options: `top` for a classifier, `threshold` for a detector.

    Raises:
        ValueError: If there is no such network, or an image is unreadable.

    Example:
    >>> from zoo.api import predict
    >>> predict("nowhere", "photo.jpg")
    Traceback (most recent call last):
    ...
    ValueError: run: expected the folder of a finished run. Received: 'nowhere'
    """
    return load(source)(images, **options)


def train(config: Source | None = None, **settings: Any) -> dict[str, Any]:
    """Trains a model and writes a run folder, as `python -m zoo.train` does.

    An interrupted run resumes when it is called again with the same settings.

    Args:
        config: YAML file, or the name of a configuration of the zoo, such as
            `"lambda_resnet14_digits"`. Defaults to None.
        **settings: Fields of `zoo.config.TrainConfig`, or of
            `zoo.config.detection.DetectionConfig` with `task="detection"` or a `config` of that
            task, sections as dictionaries; they override `config`: `output_dir="runs/mine",
            training={"epochs": 10}`.

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
    task = settings.get("task") or (read_task(str(config)) if config else CLASSIFICATION)
    row = row_of_task(task, CONFIGS)
    if config is not None:
        settings = {"config": config, **settings}
    checked = row.from_values(settings)
    use_default_backend(BACKENDS[:2])
    return task_module(task, TRAIN).train(checked)


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
        data: Test images. For a classifier, fields of `zoo.config.DataConfig`; they change the
            images of a run, as `{"name": "imagenet_v2"}`, else they name the images. For a
            detector, `dir`, a folder of shards, and `batch_size`. Defaults to None: the images of
            the run, else digits.
        weights: Weights, as for `load`; class names are those of the data.
        image_size: Height and width of images, as for `load`.
        averaged: Whether to use the EMA weights, if a run has them. Defaults to True.

    Returns:
        For a classifier, a `zoo.evaluate.metrics.Evaluation`, with `top1`, `top5`, `loss`,
        `confusion`, `by_class`; for a detector, a `zoo.detection.report.Evaluation`, with
        `figures`: AP of boxes and masks.

    Raises:
        ValueError: If there is no such network, or the images do not fit it.
        FileNotFoundError: If the hub cannot be reached, and the network is not cached.

    Example:
    >>> from zoo.api import evaluate
    >>> evaluate("nowhere")
    Traceback (most recent call last):
    ...
    ValueError: run: expected the folder of a finished run. Received: 'nowhere'
    """
    if not isinstance(data, Mapping | None):
        raise ValueError(f"data: expected a dictionary of settings. Received: {reprlib.repr(data)}")
    named = _named(source, weights, image_size=image_size)
    module = task_module(network_task(named.run, named.model), EVALUATE)
    values = {**named.settings(), "data": dict(data or {})}
    if not averaged:
        values["averaged"] = False
    return module.run(module.EvaluateConfig.from_values(values))[1]


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

    Example:
    >>> from zoo.api import export
    >>> export("nowhere")
    Traceback (most recent call last):
    ...
    ValueError: run: expected the folder of a finished run. Received: 'nowhere'
    """
    named = _named(source, settings.pop("weights", None))
    module = task_module(network_task(named.run, named.model), EXPORT)
    values = {**named.settings(), "output": output, **settings}
    return module.run(module.ExportConfig.from_values(values))


class _Network(NamedTuple):
    """Settings that name a network."""

    run: Any = None
    model: str | None = None
    weights: str | None = None
    class_names: Sequence[str] | None = None
    image_size: int | None = None

    def settings(self) -> dict[str, Any]:
        """Returns the settings that are not None."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def _named(source: Source, weights: Source | None, **of_weights: Any) -> _Network:
    """Checks the form of a source, and that weights are passed where they are needed."""
    places = {"source": source} if weights is None else {"source": source, "weights": weights}
    for name, place in places.items():
        try:
            if not str(place).startswith(PREFIX):
                location(place)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    use_default_backend(BACKENDS[:2])
    name = os.fspath(source)
    if weights is not None:
        return _Network(None, str(source), str(weights), **of_weights)
    if name in TABLE and not os.path.isdir(name):
        raise ValueError(
            f"weights: expected 'imagenet', or a file of weights for {name}: without weights it "
            "knows nothing. Received: None"
        )
    given = [name for name, value in of_weights.items() if value is not None]
    if given:
        raise ValueError(
            f"expected {' and '.join(given)} with weights alone: runs and published networks have "
            f"their own. Received: weights=None for {name!r}"
        )
    return _Network(model=name) if is_published(name) else _Network(location(name))
