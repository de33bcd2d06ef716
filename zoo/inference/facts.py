"""Metadata of classifiers for model cards."""

import platform
from importlib.metadata import version
from pathlib import Path

from lambda_keras.weights import find_published, is_published_name
from lambda_keras.weights.files import find_weights
from lambda_keras.weights.hub import sha256
from zoo import run_folder
from zoo.cli.model_options import ModelOptions
from zoo.inference import published
from zoo.inference.classifier import Classifier
from zoo.model_card import LABELS

LICENSE = "code Apache-2.0; weights as their author says, who may be bound by the training images'"


def facts_of(classifier: Classifier, normalises: str) -> dict[str, str]:
    """Returns card fields about inputs, classes and size; `normalises` names what does so."""
    seen, size = classifier.preprocessing, classifier.image_size
    return {
        "Preprocessing": f"shorter side resized to {seen.shorter_side} pixels, "
        f"{seen.interpolation}, antialiased; central square of {size} x {size} pixels",
        "Images": f"RGB in [0, 255], {size} x {size} pixels; {normalises} normalises them, by the "
        f"means {seen.mean} and deviations {seen.std} of [0, 1]",
        "Classes": f"{len(classifier.class_names):,}, in the order of {LABELS}",
        "Parameters": f"{classifier.model.count_params():,}",
        "Written with": ", ".join(
            [
                *(f"{name} {version(name)}" for name in ("lambda_keras", "keras", "tensorflow")),
                f"Python {platform.python_version()}",
            ]
        ),
    }


def origin_of(source: ModelOptions) -> dict[str, str]:
    """Returns card fields about the weights that the settings of a command name.

    Raises:
        ValueError: If they are not there, or damaged.
    """
    if source.run is not None:
        return origin_of_run(source.run)
    if source.is_published:
        return origin_of_published(str(source.model))
    return origin_of_weights(str(source.model), str(source.weights))


def origin_of_run(folder: Path) -> dict[str, str]:
    """Returns card fields about the weights of a finished run: EMA weights if it has them."""
    config = run_folder.load_config(folder)
    metrics = run_folder.load_metrics(folder)
    decay = config.training.ema
    kind = "not averaged" if decay is None else f"moving averages, decay {decay}"
    data = " ".join(filter(None, (config.data.source, config.data.name)))
    return {
        "Weights": f"run {folder.resolve().name}, {kind}",
        "Keras model": f"{run_folder.MODEL} of the run; `import lambda_keras` comes before "
        "`keras.models.load_model`",
        "Trained on": f"{data}, {metrics.training_images:,} images, "
        f"{config.training.epochs} epochs",
        "Test accuracy": f"{metrics.test.accuracy:.4f} ({metrics.test_images:,} images)",
        "License": LICENSE,
    }


def origin_of_weights(name: str, weights: str) -> dict[str, str]:
    """Returns card fields about weights: "imagenet", a file or folder, or of the hub."""
    if is_published_name(weights):
        found = find_published(name, weights)
        return {
            "Weights": f"{found.page}, {found.revision}",
            "Published accuracy": f"{found.top1} % on ImageNet, "
            f"{found.image_size} x {found.image_size} pixels",
            "License": found.license,
        }
    if weights.startswith("hf://"):
        return {"Weights": weights, "License": LICENSE}
    path = find_weights(weights, name)
    return {"Weights": f"{path.name}, SHA-256 {sha256(path)}", "License": LICENSE}


def origin_of_published(source: str) -> dict[str, str]:
    """Returns card fields about a network that was published by `zoo.publish`."""
    network, weights = published.read(source)
    shown = source if source.startswith("hf://") else f"folder {Path(source).resolve().name}"
    test = network.test
    return {
        "Weights": f"{weights.name} of {shown}, SHA-256 {network.sha256}",
        "Trained on": network.trained_on,
        "Test accuracy": f"{test.accuracy:.4f} ({test.images:,} images)",
        "License": network.license or LICENSE,
    }
