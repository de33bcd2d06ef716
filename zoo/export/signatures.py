"""Signatures of exports: test inputs, comparison with Keras, and lines of the model card."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lambda_keras.applications import feature_extractor
from lambda_keras.models.specs import STAGES
from zoo.export.graph import MAX_MEGAPIXELS, TOP
from zoo.inference.classifier import Classifier, predict

FEW = 16  # images for every signature but the default one

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Examples:
    """Images on which an export is compared with Keras.

    Attributes:
        files: Bytes of JPEG or PNG files.
        images: The same images, preprocessed: float32 in [0, 255].
        labels: Indices of their classes; None if these are not classes of the model.
    """

    files: list[bytes]
    images: np.ndarray
    labels: np.ndarray | None = None


@dataclass(frozen=True)
class Signature:
    """One signature of an export.

    Attributes:
        inputs: Function from examples to named inputs.
        difference: Function from the classifier, the examples, the named outputs, and Keras'
            probabilities of all examples to the largest difference from Keras.
        card: Description of inputs and outputs in Markdown.
    """

    inputs: Callable[[Examples], Arrays]
    difference: Callable[[Classifier, Examples, Arrays, np.ndarray], float]
    card: Callable[[Classifier], tuple[str, str]]


def largest_difference(got: np.ndarray, expected: np.ndarray) -> float:
    """Compares arrays; other shapes, or values that are not finite, count as inf."""
    if got.shape != expected.shape or not np.isfinite(got - expected).all():
        return np.inf
    return float(np.abs(got - expected).max())


def top_difference(outputs: Arrays, expected: np.ndarray, class_names: Sequence[str]) -> float:
    """Compares the most probable classes; equally probable ones may swap places."""
    classes, scores = outputs["classes"], outputs["scores"]
    names = np.array(class_names)[classes]
    if not (np.char.decode(outputs["labels"], "utf-8") == names).all():
        return np.inf
    highest = -np.sort(-expected, axis=-1)[:, : scores.shape[-1]]
    of_classes = np.take_along_axis(expected, classes, -1)
    return max(largest_difference(scores, highest), largest_difference(scores, of_classes))


def _rounded(examples: Examples) -> np.ndarray:
    return np.round(examples.images[:FEW]).astype("uint8")


def _of_probabilities(classifier, examples, outputs, expected) -> float:
    return largest_difference(outputs["probabilities"], expected)


def _of_integers(classifier, examples, outputs, expected) -> float:
    return largest_difference(
        outputs["probabilities"], predict(classifier.model, _rounded(examples))
    )


def _of_files(classifier, examples, outputs, expected) -> float:
    return top_difference(outputs, expected[:FEW], classifier.class_names)


def _of_features(classifier, examples, outputs, expected) -> float:
    """Compares feature maps, each relative to its largest value."""
    maps: Any = predict(feature_extractor(classifier.model), examples.images[:FEW])
    return max(
        largest_difference(outputs[name], value) / max(float(np.abs(value).max()), 1e-30)
        for name, value in maps.items()
    )


def _images(classifier: Classifier, dtype: str) -> str:
    size = classifier.image_size
    return f"`images` {dtype} (batch, {size}, {size}, 3)"


def _probabilities(classifier: Classifier) -> str:
    return f"`probabilities` float32 (batch, {len(classifier.class_names)})"


def _top(classifier: Classifier) -> str:
    top = min(TOP, len(classifier.class_names))
    outputs = ("`classes` int32", "`labels` string", "`scores` float32")
    return ", ".join(f"{output} (batch, {top})" for output in outputs)


def _maps(classifier: Classifier) -> str:
    shapes = {name: classifier.model.get_layer(name).output.shape[1:] for name in STAGES}
    return ", ".join(
        f"`{name}` float32 (batch, {h}, {w}, {c})" for name, (h, w, c) in shapes.items()
    )


SIGNATURES = {
    "serving_default": Signature(
        lambda examples: {"images": examples.images},
        _of_probabilities,
        lambda classifier: (_images(classifier, "float32"), _probabilities(classifier)),
    ),
    "images_uint8": Signature(
        lambda examples: {"images": _rounded(examples)},
        _of_integers,
        lambda classifier: (_images(classifier, "uint8"), _probabilities(classifier)),
    ),
    "image_bytes": Signature(
        # NumPy strips trailing zeros of strings; JPEG and PNG files have none.
        lambda examples: {"image_bytes": np.array(examples.files[:FEW])},
        _of_files,
        lambda classifier: (
            f"`image_bytes` string (batch,), JPEG or PNG files of at most {MAX_MEGAPIXELS} "
            "megapixels, turned upright by EXIF, transparent ones on white",
            _top(classifier),
        ),
    ),
    "features": Signature(
        lambda examples: {"images": examples.images[:FEW]},
        _of_features,
        lambda classifier: (_images(classifier, "float32"), _maps(classifier)),
    ),
}
