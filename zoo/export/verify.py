"""Runs an export in a new process, and compares its outputs with Keras'."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from zoo import run_folder
from zoo.data.crops import decode_centre
from zoo.data.load import held_out_files
from zoo.errors import needs_extra
from zoo.export.formats import FORMATS
from zoo.export.runtimes import run
from zoo.export.signatures import SIGNATURES, Examples
from zoo.inference.classifier import Classifier, predict

# Largest difference from Keras by quantization; int8 is reported, whatever it is.
MAX_DIFFERENCE = {None: 1e-5, "float16": 1e-2, "int8": float("inf")}
MAX_IMAGES = 512  # held-out images that both run on; they have to fit into memory


@dataclass(frozen=True)
class Comparison:
    """Difference of an export from Keras.

    Attributes:
        differences: By signature, the largest difference: of probabilities; of features relative
            to the largest one.
        agreement: Fraction of the images with the same most probable class.
        accuracy: The export's accuracy on the images; None without labels.
        images: Their number.
    """

    differences: Mapping[str, float]
    agreement: float
    accuracy: float | None
    images: int


def held_out_examples(folder: Path, classifier: Classifier) -> Examples:
    """Loads images that a run was tested on."""
    config = run_folder.load_config(folder)
    files, labels = held_out_files(config.data, config.model.size, MAX_IMAGES)
    return Examples(files, _views(classifier, files), labels)


def sample_examples(classifier: Classifier) -> Examples:
    """Cuts parts out of the two images that come with scikit-learn."""
    with needs_extra("train"):
        from sklearn.datasets import load_sample_images
    parts = (
        image[rows, columns]
        for image in load_sample_images().images
        for rows in (slice(None), slice(0, 300), slice(127, None))
        for columns in (slice(None), slice(0, 400), slice(240, None))
    )
    files = [bytes(tf.io.encode_jpeg(part, quality=90).numpy()) for part in parts]
    return Examples(files, _views(classifier, files))


def compare(
    classifier: Classifier, format_name: str, folder: Path, examples: Examples
) -> Comparison:
    """Compares every signature of an export with Keras.

    Raises:
        ValueError: If the export does not work with the runtime alone.
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


def _views(classifier: Classifier, files: list[bytes]) -> np.ndarray:
    return np.stack([decode_centre(file, classifier.preprocessing).numpy() for file in files])
