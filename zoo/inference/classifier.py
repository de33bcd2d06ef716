"""Classifiers: a model with its preprocessing and class names."""

import os
import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from lambda_keras.applications import imagenet_classes, preprocess_input, preprocessing_of
from lambda_keras.applications.preprocessing import Preprocessing
from lambda_keras.layers.arguments import is_positive_integer
from lambda_keras.weights import load_weights
from lambda_keras.weights.fit import check_finite
from zoo import run_folder
from zoo.cli.model_options import ClassifierOptions
from zoo.data.crops import check_header, decode_centre, resize_centre
from zoo.data.errors import reason
from zoo.data.image_files import is_pillow, to_jpeg_or_png, to_png
from zoo.data.load import held_out_preprocessing
from zoo.errors import printable
from zoo.files import local_copy, location, why_no_file
from zoo.inference import published
from zoo.inference.compiled import compiled
from zoo.inference.predictions import ClassScore, Prediction
from zoo.registry import create_model, find_model

BATCH_SIZE = 32
Image = Any  # a file's path, an image of Pillow, or pixels


def predict(model: keras.Model, images: np.ndarray) -> np.ndarray:
    """Returns outputs `(count, ...)` by Keras itself, with nothing folded.

    Images are RGB in [0, 255], of shape `(count, height, width, 3)`.
    """
    # Not `predict_on_batch`: with several devices it answers once for each of them.
    images = preprocess_input(images)
    return model.predict(images, BATCH_SIZE, verbose=0)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Classifier:
    """A model with its preprocessing and the names of its classes.

    Attributes:
        name: Its name in the zoo.
        model: Takes images that passed `preprocess_input`.
        preprocessing: Preprocessing of images, as when the accuracy was measured.
        class_names: Names of the classes.
    """

    name: str
    model: keras.Model
    preprocessing: Preprocessing
    class_names: Sequence[str]

    @property
    def image_size(self) -> int:
        """Height and width of the model's images in pixels."""
        return self.preprocessing.image_size

    @cached_property
    def infer(self) -> Callable[[np.ndarray], np.ndarray]:
        """From images that passed `preprocess_input` to probabilities, `(count, classes)`.

        It takes the weights that the model has at the first call.
        """
        return compiled(self.model)

    @classmethod
    def from_source(cls, source: ClassifierOptions) -> Self:
        """Loads the model that the settings of a command name.

        Raises:
            ValueError: If there is none, or it is damaged, or the weights or labels do not fit it.
        """
        if source.run is not None:
            return cls.from_run(source.run)
        if source.is_published:
            return cls.from_published(str(source.model))
        names = source.class_names
        try:
            return cls.from_weights(
                str(source.model), str(source.weights), names, source.image_size
            )
        except ValueError as error:
            which = "1000 classes of ImageNet (--labels names others)"
            if names is not None:
                which = f"{len(names)} classes of --labels"
            raise ValueError(f"with the {which}: {error}") from None

    @classmethod
    def from_weights(
        cls,
        name: str,
        weights: str,
        class_names: Sequence[str] | None = None,
        image_size: int | None = None,
    ) -> Self:
        """Builds a model of the zoo.

        Args:
            name: One of `zoo.registry.list_models()`.
            weights: What its constructor takes: "imagenet", a file, or a place on the hub.
            class_names: Names of the classes. Defaults to those of ImageNet.
            image_size: Height and width in pixels. Defaults to that of the weights.

        Raises:
            ValueError: If there is no such model, the weights do not fit it, or names or size are
                none.
        """
        if class_names is None:
            class_names = [label.replace("_", " ") for _, label in imagenet_classes()]
        labels = _checked_names(class_names)
        size = find_model(name).size_for(weights) if image_size is None else image_size
        if not is_positive_integer(size) or not 8 <= size <= 2048:
            raise ValueError(f"image_size: expected an integer from 8 to 2048. Received: {size!r}")
        model = create_model(
            name, weights=weights, classes=len(labels), input_shape=(size, size, 3)
        )
        return cls(name, model, preprocessing_of(name, size), labels)

    @classmethod
    def from_run(cls, folder: Path) -> Self:
        """Loads the model of a finished run, with the preprocessing of its test images.

        Raises:
            ValueError: If the folder is missing or holds no finished run, or its model is damaged.
        """
        config = run_folder.load_config(folder)
        names = run_folder.load_metrics(folder).class_names
        model = _load_model(folder / run_folder.MODEL)
        if model.output_shape[-1] != len(names):
            raise ValueError(
                f"run: expected {model.output_shape[-1]} class_names, one for each output of the "
                f"model, in {folder / run_folder.METRICS}. Received: {len(names)}"
            )
        preprocessing = held_out_preprocessing(config.data, config.model.size)
        return cls(config.model.name, model, preprocessing, names)

    @classmethod
    def from_published(cls, source: str) -> Self:
        """Loads what `zoo.publish` wrote, with the labels and the preprocessing that it names.

        Args:
            source: Folder, or `"hf://owner/name"`.

        Raises:
            ValueError: If there is no such network, or its files are damaged.
            FileNotFoundError: If the hub cannot be reached, and they are not cached.
        """
        network, weights = published.read(source)
        view = network.preprocessing.preprocessing()
        with published.bounded_by(weights):
            model = create_model(
                network.model,
                classes=len(network.class_names),
                input_shape=(view.image_size, view.image_size, 3),
                **network.overrides,
            )
        load_weights(model, weights, network.model)
        return cls(network.model, model, view, network.class_names)

    @classmethod
    def load(cls, source: str | os.PathLike[str]) -> Self:
        """Loads the folder of a run, or what `zoo.publish` wrote, by where it is.

        Args:
            source: Folder of a finished run, local or gs://; a folder of `zoo.publish`; or
                `"hf://owner/name"`.

        Raises:
            ValueError: If it is none of these, or damaged.
            FileNotFoundError: If the hub cannot be reached, and it is not cached.
        """
        if published.is_published(source):
            return cls.from_published(str(source))
        return cls.from_run(location(source))

    def __call__(self, images: Image | Sequence[Image], top: int = 5) -> list[Any]:
        """Returns the most probable classes of images, resized and cropped as image files are.

        Args:
            images: One image or several: each the path of an image file, an image of Pillow, or a
                uint8 array `(height, width, 3)`, RGB. Several are a list, or an array `(count,
                height, width, 3)`.
            top: How many classes to name, from 1; all if there are fewer. Defaults to 5.

        Returns:
            `ClassScore(index, name, probability)` of each class, the most probable one first: a
            list of them for one image, and a list of such lists for several.

        Raises:
            ValueError: If a file is unreadable, an array is of another kind, or the outputs of the
                model are not finite.
        """
        if not is_positive_integer(top):
            raise ValueError(f"expected top to be a positive integer. Received: {top!r}")
        every: Any = images
        is_one = isinstance(images, str | os.PathLike) or is_pillow(images)
        if is_one or getattr(images, "ndim", None) == 3:
            return self([every], top)[0]
        try:
            every = list(every)
        except TypeError:
            raise ValueError(f"expected images. Received: a {type(images).__name__}") from None
        scores = []
        for begin in range(0, len(every), BATCH_SIZE):
            views = [self._view(image) for image in every[begin : begin + BATCH_SIZE]]
            scores += self._scores(views, top)
        return scores

    def _view(self, image: Image) -> np.ndarray:
        if isinstance(image, str | os.PathLike):
            return self.view(Path(image))
        if is_pillow(image):
            try:
                content = to_png(image)
            except (OSError, ValueError) as error:  # a file that was opened and is read now
                raise ValueError(f"unreadable image of Pillow: {printable(error)}") from None
            return decode_centre(content, self.preprocessing).numpy()
        shape: Any = getattr(image, "shape", ())
        is_image = isinstance(image, np.ndarray) and image.dtype == "uint8" and image.ndim == 3
        if not is_image or shape[2] != 3 or 0 in shape:
            raise ValueError(
                "expected the path of an image, an image of Pillow, or a uint8 array of shape "
                "(height, width, 3). "
                f"Received: a {type(image).__name__} of {getattr(image, 'dtype', 'no dtype')}, "
                f"shape={tuple(shape)}"
            )
        return resize_centre(tf.constant(image), self.preprocessing).numpy()

    def ask(self, photos: Sequence[Path], top: int) -> Iterator[Prediction]:
        """Yields an answer for each image, reading a few at a time.

        Args:
            photos: Image files.
            top: How many classes to name; all if there are fewer.

        Raises:
            ValueError: If a file is unreadable, or the model's outputs are not finite.
        """
        for begin in range(0, len(photos), BATCH_SIZE):
            batch = photos[begin : begin + BATCH_SIZE]
            scores = self._scores([self.view(photo) for photo in batch], top)
            yield from map(Prediction, batch, scores)

    def _scores(self, views: Sequence[np.ndarray], top: int) -> list[list[ClassScore]]:
        """Returns the most probable classes of each of some images that the model sees."""
        probabilities = self.infer(preprocess_input(np.stack(views))).astype("float64")
        if not np.isfinite(probabilities).all():
            raise ValueError(f"{self.name} returns probabilities that are not finite numbers")
        scores = []
        for row in probabilities.tolist():
            order = sorted(range(len(row)), key=row.__getitem__, reverse=True)[:top]
            scores.append([ClassScore(i, self.class_names[i], row[i]) for i in order])
        return scores

    def view(self, photo: Path) -> np.ndarray:
        """Preprocesses an image for the model: `(size, size, 3)`, in [0, 255].

        Args:
            photo: Image file.

        Raises:
            ValueError: If it is unreadable.
        """
        try:
            if why := why_no_file(photo):  # a pipe would be waited for
                raise ValueError(why)
            content = to_jpeg_or_png(photo.read_bytes())
            check_header(content)
            return decode_centre(content, self.preprocessing).numpy()
        except (OSError, ValueError, tf.errors.OpError) as error:
            name = printable(photo)
            raise ValueError(f"unreadable image: {name} ({reason(error)})") from None


def _checked_names(class_names: Any) -> list[str]:
    names = []
    if isinstance(class_names, Sequence | np.ndarray) and not isinstance(class_names, str):
        names = list(class_names)
    if len(names) < 2 or not all(isinstance(name, str) and name for name in names):
        raise ValueError(
            "class_names: expected the names of two or more classes. "
            f"Received: {reprlib.repr(class_names)}"
        )
    return list(map(str, names))


def _load_model(path: Path) -> keras.Model:
    try:
        with local_copy(path) as here:
            model: Any = keras.models.load_model(here)
        if not model.built:  # as an empty Sequential
            raise ValueError("a model without layers")
        for weight in model.weights:
            check_finite(weight.path, keras.ops.convert_to_numpy(weight), str(path))
    except Exception as error:  # those of ZIP files, of HDF5 and of Keras are many kinds
        reason = " ".join(str(error).split())
        raise ValueError(f"run: expected an intact model. Received: {path} ({reason})") from error
    return model
