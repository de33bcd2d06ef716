"""Asking a model about images and about photographs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import keras
import numpy as np

from lambda_keras.applications import preprocess_input
from lambda_keras.applications.preprocessing import (
    Preprocessing,
    imagenet_classes,
    preprocessing_of,
)
from lambda_keras.weights.fit import check_finite
from zoo import run_folder
from zoo.cli.model_options import ClassifierOptions
from zoo.config import TrainConfig
from zoo.errors import needs_extra
from zoo.files import local_copy
from zoo.inference.predictions import ClassScore, Prediction
from zoo.registry import create_model, find_model

if TYPE_CHECKING:
    from PIL.Image import Image

BATCH_SIZE = 32


def predict(model: keras.Model, images: np.ndarray) -> np.ndarray:
    """Returns class probabilities.

    Args:
        model: Classifier of the zoo.
        images: RGB images in [0, 255], shape `(count, height, width, 3)`.

    Returns:
        Array of shape `(count, classes)`.
    """
    # Not `predict_on_batch`: with several devices it answers once for each of them.
    images = preprocess_input(images)
    return model.predict(images, BATCH_SIZE, verbose=0)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Classifier:
    """A model with what its photographs go through and the names of its classes.

    Attributes:
        name: Its name in the zoo.
        model: Takes images that passed `preprocess_input`.
        preprocessing: From an RGB photograph to an image in [0, 255] of the model's size.
        class_names: Names of the classes.
    """

    name: str
    model: keras.Model
    preprocessing: Callable[["Image"], np.ndarray]
    class_names: Sequence[str]

    @classmethod
    def from_source(cls, source: ClassifierOptions) -> Self:
        """Loads the model that the settings of a command name.

        Raises:
            ValueError: If there is none, or it is damaged, or the weights or labels do not fit it.
        """
        if source.run is not None:
            return cls.from_run(source.run)
        return cls.from_weights(
            str(source.model), str(source.weights), source.class_names, source.image_size
        )

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
            image_size: Height and width in pixels. Defaults to the model's own.

        Raises:
            ValueError: If there is no such model, or the weights do not fit it.
        """
        labels = class_names or [label.replace("_", " ") for _, label in imagenet_classes()]
        size = image_size or find_model(name).image_size
        model = create_model(
            name, weights=weights, classes=len(labels), input_shape=(size, size, 3)
        )
        return cls(name, model, preprocessing_of(name, size), labels)

    @classmethod
    def from_run(cls, folder: Path) -> Self:
        """Loads the model of a finished run; photographs go through what its test images did.

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
        return cls(config.model.name, model, _as_tested(config), names)

    def ask(self, photos: Sequence[Path], top: int) -> Iterator[Prediction]:
        """Yields an answer for each photograph, reading a few at a time.

        Args:
            photos: JPEG or PNG files.
            top: How many classes to name; all if there are fewer.

        Raises:
            ValueError: If a file is unreadable, or the model's outputs are not finite.
        """
        for begin in range(0, len(photos), BATCH_SIZE):
            batch = photos[begin : begin + BATCH_SIZE]
            images = np.stack([self.view(photo) for photo in batch])
            probabilities = np.asarray(predict(self.model, images), "float64")
            if not np.isfinite(probabilities).all():
                raise ValueError(f"{self.name} returns probabilities that are not finite numbers")
            for photo, row in zip(batch, probabilities, strict=True):
                yield Prediction(photo, self._scores(row, top))

    def view(self, photo: Path) -> np.ndarray:
        """Returns what the model sees of a photograph, in [0, 255], shape `(size, size, 3)`."""
        return self.preprocessing(read_photo(photo))

    def _scores(self, probabilities: np.ndarray, top: int) -> list[ClassScore]:
        order: list[int] = np.argsort(-probabilities, kind="stable")[:top].tolist()
        return [ClassScore(i, self.class_names[i], float(probabilities[i])) for i in order]


def _load_model(path: Path) -> keras.Model:
    try:
        with local_copy(path) as here:
            model: Any = keras.models.load_model(here)
        for weight in model.weights:
            check_finite(weight.path, keras.ops.convert_to_numpy(weight), str(path))
    except Exception as error:  # those of ZIP files, of HDF5 and of Keras are many kinds
        reason = " ".join(str(error).split())
        raise ValueError(f"run: expected an intact model. Received: {path} ({reason})") from error
    return model


def _as_tested(config: TrainConfig) -> Callable[["Image"], np.ndarray]:
    """Returns what the test images of a run go through."""
    if config.data.source == "digits":
        return Preprocessing(config.model.size, crop_fraction=1, interpolation="bilinear")
    import tensorflow as tf

    from zoo.data.crops import resize_centre

    def centre(photo: "Image") -> np.ndarray:
        return resize_centre(tf.convert_to_tensor(np.asarray(photo)), config.model.size).numpy()

    return centre


def read_photo(path: Path) -> "Image":
    """Reads a photograph as a viewer shows it.

    Args:
        path: JPEG or PNG file: colour, grey (8 or 16 bits), palette, CMYK or transparent.

    Returns:
        RGB image, turned upright by its EXIF orientation, on white where it is transparent.

    Raises:
        ValueError: If the file is unreadable.
    """
    with needs_extra("train"):
        from PIL import Image, ImageOps
    try:
        with Image.open(path, formats=("JPEG", "PNG")) as image:
            return _rgb(ImageOps.exif_transpose(image))
    except Exception as error:  # Pillow's decoders raise many kinds
        raise ValueError(f"unreadable photograph: {path} ({error})") from None


def _rgb(image: "Image") -> "Image":
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits, which Pillow would clip to 8
        return Image.fromarray((np.asarray(image) // 256).astype("uint8")).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")
