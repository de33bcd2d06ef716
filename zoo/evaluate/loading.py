"""Loading of a network and test images of its classes."""

from pathlib import Path

from lambda_keras.applications.preprocessing import Preprocessing, preprocessing_of
from lambda_keras.weights import load_weights
from zoo import run_folder
from zoo.cli.model_options import ModelOptions
from zoo.config import DataConfig
from zoo.data.load import ImageData, load_data
from zoo.files import local_copy
from zoo.inference.classifier import Classifier
from zoo.registry import find_model


def of_source(
    source: ModelOptions, data: DataConfig, averaged: bool = True
) -> tuple[Classifier, ImageData]:
    """Returns the network that the settings of a command name, and test images of its classes.

    Raises:
        ValueError: If there is no such network, or its weights and the images do not fit each
            other.
    """
    if source.run is not None:
        return of_run(source.run, data, averaged)
    if not averaged:
        raise ValueError("averaged: only a run has other weights than the averaged ones")
    if source.is_published:
        return of_published(str(source.model), data)
    return of_weights(str(source.model), str(source.weights), source.image_size, data)


def of_run(folder: Path, data: DataConfig, averaged: bool) -> tuple[Classifier, ImageData]:
    """Returns the network of a finished run and test images of its classes.

    Its weights are the moving averages, if there are any, or with `averaged=False` the raw ones.

    Raises:
        ValueError: If there is no such run, or its weights and the images do not fit each other.
    """
    raw = folder / run_folder.RAW_WEIGHTS
    if not averaged and not raw.is_file():
        raise ValueError(
            f"averaged: expected true, for {folder} has no other weights ({raw.name}), as it was "
            "trained without training.ema. Received: false"
        )
    size = run_folder.load_config(folder).model.size
    classifier = Classifier.from_run(folder)
    if not averaged:
        with local_copy(raw) as here:
            load_weights(classifier.model, here, classifier.name)
    return _checked(classifier, _load(data, size))


def of_published(source: str, data: DataConfig) -> tuple[Classifier, ImageData]:
    """Returns a network of `zoo.publish`, by its folder or `hf://` address, and test images.

    They go through what the network was published with.

    Raises:
        ValueError: If there is no such network, or it and the images do not fit each other.
    """
    classifier = Classifier.from_published(source)
    return _checked(classifier, _load(data, classifier.image_size, classifier.preprocessing))


def of_weights(
    name: str, weights: str, image_size: int | None, data: DataConfig
) -> tuple[Classifier, ImageData]:
    """Returns a network of the zoo with weights and test images of its classes.

    Name, weights and image size are those of `Classifier.from_weights`.

    Raises:
        ValueError: If the weights and the images do not fit each other.
    """
    size = image_size or find_model(name).size_for(weights)
    images = _load(data, size, preprocessing_of(name, size))
    try:
        classifier = Classifier.from_weights(name, weights, images.class_names, image_size)
    except ValueError as error:
        count = len(images.class_names)
        raise ValueError(f"for the {count} classes of the data: {error}") from None
    return _checked(classifier, images)


def _load(
    config: DataConfig, image_size: int, preprocessing: Preprocessing | None = None
) -> ImageData:
    # Sets like imagenet_v2 have no images to train on; so those of the test stand in for them.
    changes = {"train_split": config.test_split, "batch_size": 1, "augment": False}
    config = config.model_copy(update=changes)
    return load_data(config, image_size, preprocessing=preprocessing)


def _checked(classifier: Classifier, data: ImageData) -> tuple[Classifier, ImageData]:
    expected, received = list(classifier.class_names), list(data.class_names)
    if len(expected) != len(received):
        raise ValueError(
            f"data: expected images of {len(expected)} classes, as {classifier.name} knows. "
            f"Received: {len(received)} classes ({', '.join(received[:3])}, ...)"
        )
    for number, (own, other) in enumerate(zip(expected, received, strict=True)):
        if own != other:
            raise ValueError(
                f"data: expected the classes of {classifier.name}, of which number {number} is "
                f"{own!r}. Received: {other!r}"
            )
    outputs = classifier.model.output_shape
    if outputs != (None, len(expected)):
        raise ValueError(
            f"expected a model with a classifier of {len(expected)} classes. Received: "
            f"{classifier.name} with outputs of shape {outputs}"
        )
    return classifier, data
