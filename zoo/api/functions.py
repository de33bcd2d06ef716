"""The functions of `zoo.api`: thin, over what the commands call."""

import os
import reprlib
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from lambda_keras.weights.hub import PREFIX
from zoo import run_folder
from zoo.cli.model_options import ModelOptions
from zoo.cli.run import BACKENDS, use_default_backend
from zoo.cli.settings import check_section
from zoo.config import DataConfig, TrainConfig
from zoo.files import location
from zoo.registry import TABLE

if TYPE_CHECKING:
    from zoo.evaluate.metrics import Evaluation
    from zoo.inference.classifier import Classifier

Source = str | PathLike[str]


def load_classifier(
    source: Source,
    weights: Source | None = None,
    class_names: Sequence[str] | None = None,
    image_size: int | None = None,
) -> "Classifier":
    """Loads a network that names what images show, as `python -m zoo.predict` does.

    Args:
        source: Folder of a finished run, local or gs://; a folder that `zoo.publish` wrote, or
            `"hf://owner/name"`, where it uploaded one; or with `weights` the name of a model, one
            of `zoo.registry.list_models()`.
        weights: For a model by its name: `"imagenet"`, `"hf://owner/name"`, or a file. Defaults to
            None.
        class_names: Names of the classes of `weights`. Defaults to the 1000 of ImageNet.
        image_size: Height and width of images in pixels, for `weights`. Defaults to None: those
            that the weights were published for.

    Returns:
        A `zoo.inference.classifier.Classifier`. Called with paths of image files, images of
        Pillow, or uint8 arrays of shape `(height, width, 3)`, RGB, it returns the most probable
        classes of each, as `ClassScore(index, name, probability)`. It resizes and crops images
        itself.

    Raises:
        ValueError: If there is no such network, or it is damaged, or the weights do not fit.
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
    _check_source(source, weights, class_names=class_names, image_size=image_size)
    use_default_backend(BACKENDS[:2])
    from zoo.inference.classifier import Classifier

    if weights is not None:
        return Classifier.from_weights(str(source), str(weights), class_names, image_size)
    return Classifier.load(source)


def train(config: Source | None = None, **settings: Any) -> dict[str, Any]:
    """Trains a model and writes a run folder, as `python -m zoo.train` does.

    An interrupted run goes on when it is called with the same settings again.

    Args:
        config: YAML file, or the name of a configuration of the zoo, such as
            `"lambda_resnet14_digits"`. Defaults to None.
        **settings: Fields of `zoo.config.TrainConfig`, sections as dictionaries; they win over
            `config`: `output_dir="runs/mine", training={"epochs": 10}`.

    Returns:
        What `metrics.json` in the run folder holds: test metrics, counts, class names and the
        history by epoch.

    Raises:
        ValueError: If a setting is wrong, the folder is in use, or images or weights do not fit.

    Example:
    >>> from zoo.api import train
    >>> train("lambda_resnet14_digits", training={"epochs": 0})
    Traceback (most recent call last):
    ...
    ValueError: training.epochs: Input should be greater than or equal to 1. Received: 0
    """
    if config is not None:
        settings = {"config": config, **settings}
    checked = TrainConfig.from_values(settings)
    use_default_backend(BACKENDS[:2])
    from zoo.train import classification

    return classification.train(checked)


def evaluate(
    source: Source,
    data: Mapping[str, Any] | None = None,
    weights: Source | None = None,
    image_size: int | None = None,
    averaged: bool = True,
) -> "Evaluation":
    """Measures how well a model classifies test images, as `python -m zoo.evaluate` does.

    Args:
        source: As for `load_classifier`.
        data: Fields of `zoo.config.DataConfig`. For a run they change its own images, as
            `{"name": "imagenet_v2"}`; else they name the images. Defaults to None: those of the
            run, else digits.
        weights: As for `load_classifier`; class names are those of the data.
        image_size: As for `load_classifier`.
        averaged: Whether to take the moving averages of the weights, if a run has them. Defaults to
            True.

    Returns:
        A `zoo.evaluate.metrics.Evaluation`, with `top1`, `top5`, `loss`, `confusion`, `by_class`.

    Raises:
        ValueError: If there is no such network, or it and the images do not fit each other.
        FileNotFoundError: If the hub cannot be reached, and the network is not cached.

    Example:
    >>> from zoo.api import evaluate
    >>> evaluate("nowhere")
    Traceback (most recent call last):
    ...
    ValueError: run: expected the folder of a finished run. Received: 'nowhere'
    """
    _check_source(source, weights, image_size=image_size)
    if not isinstance(data, Mapping | None):
        raise ValueError(f"data: expected a dictionary of settings. Received: {reprlib.repr(data)}")
    use_default_backend(BACKENDS[:2])
    from zoo.evaluate import loading, metrics
    from zoo.inference.published import is_published

    asked = dict(data or {})
    if weights is not None:
        options = {"model": str(source), "weights": str(weights), "image_size": image_size}
    elif is_published(source):
        options = {"model": str(source)}
    else:
        options = {"run": str(source)}
        asked = run_folder.test_data(location(source), asked)
    config = check_section(DataConfig, asked, "data")
    classifier, images = loading.of_source(ModelOptions.from_values(options), config, averaged)
    return metrics.evaluate(classifier, images.test, config.batch_size)


def _check_source(source: Source, weights: Source | None, **of_weights: Any) -> None:
    """Checks that a source can be one, and has weights where it or other arguments need them."""
    places = {"source": source} if weights is None else {"source": source, "weights": weights}
    for name, place in places.items():
        try:
            if not str(place).startswith(PREFIX):
                location(place)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if weights is not None:
        return
    name = os.fspath(source)
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
