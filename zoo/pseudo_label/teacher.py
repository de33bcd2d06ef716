"""Teachers: runs, published networks and SavedModels, by their place."""

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from pydantic import TypeAdapter, ValidationError

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import Preprocessing
from zoo.cli.tasks import HUB, NETWORK
from zoo.data.crops import check_header, decode, resize_center
from zoo.data.errors import reason
from zoo.data.image_files import to_jpeg_or_png
from zoo.errors import first_wrong, refusal
from zoo.files import answering, find_pointer, location
from zoo.inference.source.base import ClassifierSource
from zoo.inference.source.published import Published
from zoo.inference.source.run import Run
from zoo.model_card import LABELS, PREPROCESSING
from zoo.pseudo_label.exclude import thumbnail
from zoo.run_folder import CONFIG

SAVED_MODEL = "saved_model.pb"
_LOADING = threading.Lock()


@dataclass(frozen=True)
class Teacher:
    """A classifier that labels images."""

    id: str  # its name, and the beginning of a digest of its weights
    class_names: Sequence[str]
    preprocessing: Preprocessing
    predict: Callable[[np.ndarray], np.ndarray]  # pixels in [0, 255] to (batch, classes)

    @cached_property
    def _decode(self) -> Any:
        @tf.function(input_signature=[tf.TensorSpec([], tf.string)], autograph=False)
        def decoded(content: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            image = decode(content)
            return resize_center(image, self.preprocessing), thumbnail(image)

        return decoded

    def decode(self, content: bytes) -> tuple[np.ndarray, np.ndarray]:
        """Returns the preprocessed pixels and the thumbnail of an image file; threads may call it.

        Raises `ValueError` with the reason if the file is unreadable.
        """
        try:
            file = to_jpeg_or_png(content)
            check_header(file)
            pixels, small = self._decode(file)
        except tf.errors.OpError as error:
            raise ValueError(reason(error)) from None
        return pixels.numpy(), small.numpy()


def find_teacher(place: str) -> ClassifierSource | Any:
    """Finds the source of a teacher, or the folder of a SavedModel, by the files at its place."""
    if place.startswith(HUB):
        return Published(place)
    folder = location(place)
    with answering(folder):
        if (folder / CONFIG).is_file():
            return Run(folder)
        if (folder / NETWORK).is_file():
            return Published(place)
        if (folder / SAVED_MODEL).is_file():
            return folder
    export = f"a SavedModel of zoo.export (with {SAVED_MODEL})"
    expected = f"teacher: expected a run folder, a folder of zoo.publish (with {NETWORK}), {export}"
    raise refusal(f"{expected}, or hf://OWNER/NAME", repr(place))


def load_teacher(place: str) -> Teacher:
    """Loads a teacher, once in a process: threads of a worker share it."""
    with _LOADING:
        return _load(place)


@cache
def _load(place: str) -> Teacher:
    source = find_teacher(place)
    if not isinstance(source, ClassifierSource):
        return _saved_model(source)
    classifier = source.load()
    weights = (keras.ops.convert_to_numpy(weight).tobytes() for weight in classifier.model.weights)
    return Teacher(
        _id(classifier.name, weights),
        tuple(classifier.class_names),
        classifier.preprocessing,
        lambda images: classifier.infer(preprocess_input(images)),
    )


def _saved_model(folder: Any) -> Teacher:
    expected = f"teacher: expected a SavedModel of zoo.export, with {PREPROCESSING} and {LABELS}"
    try:
        json = (folder / PREPROCESSING).read_bytes()
        preprocessing = TypeAdapter(Preprocessing).validate_json(json)
        class_names = (folder / LABELS).read_text(encoding="utf-8").splitlines()
        loaded: Any = tf.saved_model.load(os.fspath(folder))
        signatures = loaded.signatures
        run = signatures.get("images", signatures["serving_default"])
        classes = run.structured_outputs["probabilities"].shape[-1]
    except ValidationError as error:
        raise ValueError(f"{expected}. {first_wrong(error, PREPROCESSING)}") from None
    except Exception as error:  # TensorFlow raises many kinds
        why = find_pointer(folder) or reason(error)
        raise ValueError(f"{expected}. Received: {str(folder)!r} ({why})") from None
    if classes != len(class_names):
        raise ValueError(f"{expected} of {classes} classes. Received: {len(class_names)} classes")
    files = [folder / SAVED_MODEL, *sorted(folder.glob("variables/*"), key=str)]
    name = folder.parent.name if folder.name.isdecimal() else folder.name  # a version
    return Teacher(
        _id(name, (path.read_bytes() for path in files)),
        tuple(class_names),
        preprocessing,
        lambda images: run(images=tf.constant(images))["probabilities"].numpy(),
    )


def _id(name: str, parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return f"{name}-{digest.hexdigest()[:12]}"
