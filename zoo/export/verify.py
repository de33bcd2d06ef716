"""Runs an export in a new process, and compares its outputs with Keras'."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zoo.data.crops import decode_center
from zoo.export.formats import FORMATS
from zoo.export.runtimes import run
from zoo.export.signatures import SIGNATURES, Examples
from zoo.inference.classifier import Classifier, predict
from zoo.inference.source.base import ClassifierSource

# Largest allowed difference from Keras by quantization; for int8 it is only reported.
MAX_DIFFERENCE = {None: 1e-5, "float16": 1e-2, "int8": float("inf")}
MAX_IMAGES = 512  # held-out images for the comparison, which have to fit into memory


@dataclass(frozen=True)
class Comparison:
    """Difference of an export from Keras.

    Attributes:
        differences: Largest difference by signature: of probabilities, or of features relative to
            the largest value.
        agreement: Fraction of the images with the same most probable class.
        accuracy: Accuracy of the export on the images; None without labels.
        images: Number of images.
    """

    differences: Mapping[str, float]
    agreement: float
    accuracy: float | None
    images: int


def examples_for(source: ClassifierSource, classifier: Classifier) -> Examples:
    """Loads images that a network was not trained on."""
    files, labels = source.held_out_files(MAX_IMAGES)
    views = [decode_center(file, classifier.preprocessing).numpy() for file in files]
    return Examples(files, np.stack(views), labels)


def compare(
    classifier: Classifier, format_name: str, folder: Path, examples: Examples
) -> Comparison:
    """Compares every signature of an export with Keras.

    Raises:
        ValueError: If the export fails with its runtime alone.
    """
    rows = {name: SIGNATURES[name] for name in FORMATS[format_name].SIGNATURES}
    outputs = run(format_name, folder, {name: row.inputs(examples) for name, row in rows.items()})
    expected = predict(classifier.model, examples.images)
    predicted = outputs["serving_default"]["probabilities"].argmax(-1)
    return Comparison(
        {
            name: row.difference(classifier, examples, outputs[name], expected)
            for name, row in rows.items()
        },
        float((predicted == expected.argmax(-1)).mean()),
        None if examples.labels is None else float((predicted == examples.labels).mean()),
        len(expected),
    )
