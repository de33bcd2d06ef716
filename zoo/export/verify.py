"""Asks an export about photographs, in a new process, and compares its answers with Keras'."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from lambda_keras.applications import feature_extractor
from zoo import run_folder
from zoo.data.crops import decode_centre
from zoo.data.load import held_out_files
from zoo.errors import needs_extra
from zoo.inference.classifier import Classifier, predict
from zoo.inference.exported import ask

# Largest difference from Keras by quantisation; int8 is reported, whatever it is.
MAX_DIFFERENCE = {None: 1e-5, "float16": 1e-2, "int8": float("inf")}
MAX_IMAGES = 512  # held-out images that both are asked about; they have to fit into memory
FEW = 16  # of them for every signature but the default one

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Photographs:
    """Photographs to ask about.

    Attributes:
        files: Bytes of JPEG or PNG files.
        images: What the model sees of them, float32 in [0, 255].
        labels: Indices of their classes; None if they are none of the model's.
    """

    files: list[bytes]
    images: np.ndarray
    labels: np.ndarray | None = None

    @classmethod
    def held_out(cls, run: Path, classifier: Classifier) -> "Photographs":
        """Returns images that a run was tested on."""
        config = run_folder.load_config(run)
        files, labels = held_out_files(config.data, config.model.size, MAX_IMAGES)
        return cls(files, _views(classifier, files), labels)

    @classmethod
    def samples(cls, classifier: Classifier) -> "Photographs":
        """Returns parts of the two photographs that come with scikit-learn."""
        with needs_extra("train"):
            from sklearn.datasets import load_sample_images
        parts = (
            photo[rows, columns]
            for photo in load_sample_images().images
            for rows in (slice(None), slice(0, 300), slice(127, None))
            for columns in (slice(None), slice(0, 400), slice(240, None))
        )
        files = [bytes(tf.io.encode_jpeg(part, quality=90).numpy()) for part in parts]
        return cls(files, _views(classifier, files))


@dataclass(frozen=True)
class Report:
    """How an export answers.

    Attributes:
        differences: By signature, the largest difference from Keras: of probabilities; of
            features relative to the largest one.
        agreement: Part of the photographs with the same most probable class.
        accuracy: Part of the photographs that are classified rightly; None without labels.
        photographs: Their number.
    """

    differences: Mapping[str, float]
    agreement: float
    accuracy: float | None
    photographs: int


def check(
    classifier: Classifier, format_name: str, folder: Path, photographs: Photographs
) -> Report:
    """Compares an export of one of the formats of `runtimes.RUNTIMES` with Keras.

    Raises:
        ValueError: If the export does not work with the runtime alone.
    """
    expected = predict(classifier.model, photographs.images)
    everything = format_name == "saved_model"
    questions = {"serving_default": {"images": photographs.images}}
    answers = ask(format_name, folder, questions | (_more(photographs) if everything else {}))
    got = answers["serving_default"]["probabilities"]
    differences = {"serving_default": _largest(got, expected)}
    if everything:
        differences |= _compare_more(classifier, photographs, answers, expected[:FEW])
    guesses, labels = got.argmax(-1), photographs.labels
    return Report(
        differences,
        float((guesses == expected.argmax(-1)).mean()),
        None if labels is None else float((guesses == labels).mean()),
        len(expected),
    )


def _views(classifier: Classifier, files: list[bytes]) -> np.ndarray:
    return np.stack([decode_centre(file, classifier.preprocessing).numpy() for file in files])


def _more(photographs: Photographs) -> dict[str, Arrays]:
    """What is asked of the signatures that only a SavedModel has."""
    return {
        "images_uint8": {"images": _rounded(photographs)},
        # NumPy cuts off zeros at the end of strings, where JPEG and PNG files have none.
        "image_bytes": {"image_bytes": np.array(photographs.files[:FEW])},
        "features": {"images": photographs.images[:FEW]},
    }


def _compare_more(
    classifier: Classifier,
    photographs: Photographs,
    answers: Mapping[str, Arrays],
    expected: np.ndarray,
) -> dict[str, float]:
    of_integers = predict(classifier.model, _rounded(photographs))
    maps: Any = predict(feature_extractor(classifier.model), photographs.images[:FEW])
    relative = (
        _largest(answers["features"][name], value) / max(float(np.abs(value).max()), 1e-30)
        for name, value in maps.items()
    )
    return {
        "images_uint8": _largest(answers["images_uint8"]["probabilities"], of_integers),
        "image_bytes": _of_top(answers["image_bytes"], expected, classifier.class_names),
        "features": max(relative),
    }


def _rounded(photographs: Photographs) -> np.ndarray:
    return np.round(photographs.images[:FEW]).astype("uint8")


def _largest(got: np.ndarray, expected: np.ndarray) -> float:
    if got.shape != expected.shape or not np.isfinite(got - expected).all():
        return np.inf
    return float(np.abs(got - expected).max())


def _of_top(answers: Arrays, expected: np.ndarray, class_names) -> float:
    """Compares the most probable classes; those that are equally probable may change places."""
    classes, scores = answers["classes"], answers["scores"]
    names = np.array(class_names)[classes]
    if not (np.char.decode(answers["labels"], "utf-8") == names).all():
        return np.inf
    highest = -np.sort(-expected, axis=-1)[:, : scores.shape[-1]]
    of_classes = np.take_along_axis(expected, classes, -1)
    return max(_largest(scores, highest), _largest(scores, of_classes))
