"""Card fields that do not depend on the source of a network."""

import platform
from importlib.metadata import version

from zoo.inference.classifier import Classifier
from zoo.model_card import LABELS

LICENSE = "code Apache-2.0; weights as their author says, who may be bound by the training images'"


def classifier_fields(classifier: Classifier, normalizes: str) -> dict[str, str]:
    """Returns card fields about inputs, classes and size; `normalizes` names the normalization."""
    seen, size = classifier.preprocessing, classifier.image_size
    return {
        "Preprocessing": f"shorter side resized to {seen.shorter_side} pixels, "
        f"{seen.interpolation}, antialiased; central square of {size} x {size} pixels",
        "Images": f"RGB in [0, 255], {size} x {size} pixels; {normalizes} normalizes them, by the "
        f"means {seen.mean} and deviations {seen.std} of [0, 1]",
        "Classes": f"{len(classifier.class_names):,}, in the order of {LABELS}",
        "Parameters": f"{classifier.model.count_params():,}",
        "Written with": versions("lambda_keras", "keras", "tensorflow"),
    }


def versions(*packages: str) -> str:
    """Returns the versions of packages and Python."""
    named = (f"{name} {version(name)}" for name in packages)
    return ", ".join([*named, f"Python {platform.python_version()}"])
