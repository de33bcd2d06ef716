"""Preprocessing of images for a network, and class names of its predictions.

`imagenet_classes.txt` was made from the synsets and lemmas of timm 1.0.31 (Apache-2.0); the
names equal those in `keras.applications`.
"""

import math
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from lambda_keras.layers.arguments import check, check_choices, is_number, is_positive_integer
from lambda_keras.models.specs import CLASS_NAMES, IMAGENET, IMAGENET_MEAN, IMAGENET_STD, NETWORKS

if TYPE_CHECKING:
    from PIL.Image import Image

RESIZES = ("crop", "pad", "squash")
INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos")
CROP_PADDING = 32  # Pixels of the shorter side that the paper's center crop leaves out.
MAX_ASPECT_RATIO = 100  # Resizing a thinner image would fill the memory.


def preprocess_input(images: Any) -> Any:
    """Normalizes images by ImageNet's channel means and standard deviations, also in `tf.data`.

    Args:
        images: Array or tensor of shape `(..., 3)`, RGB, values in `[0, 255]`, integers or floats.

    Returns:
        `(images / 255 - mean) / std` in float32, of the shape of `images`; a tensor if
        `images` is one, else a NumPy array.

    Raises:
        ValueError: If images are not numeric or lack three channels.

    Example:
    >>> import numpy as np
    >>> from lambda_keras.applications import preprocess_input
    >>> preprocess_input(np.full((1, 2, 2, 3), 255, "uint8"))[0, 0, 0].round().tolist()
    [2.0, 2.0, 3.0]
    """
    images = _as_float32(images)
    shape = images.shape
    # TensorFlow may know neither rank nor channels, for example of a decoded file.
    if getattr(shape, "rank", 0) is not None and tuple(shape)[-1:] not in ((3,), (None,)):
        raise ValueError(
            f"expected images of shape (..., 3), RGB. Received: shape={tuple(shape)}; other "
            "channels: keras.layers.Normalization(mean=, variance=), by their own statistics"
        )
    offset = 255 * np.array(IMAGENET_MEAN, "float32")
    scale = 1 / (255 * np.array(IMAGENET_STD, "float32"))
    if ops.is_tensor(images):
        offset, scale = ops.convert_to_tensor(offset), ops.convert_to_tensor(scale)
    return (images - offset) * scale


def _as_float32(images):
    tensorflow = sys.modules.get("tensorflow")  # tf.data has TensorFlow's on every backend.
    if tensorflow is not None and tensorflow.is_tensor(images):
        cast = tensorflow.cast
    elif ops.is_tensor(images) or keras.utils.is_keras_tensor(images):
        cast = ops.cast
    else:
        cast, images = np.ndarray.astype, _array(images)
    already = _number_type("images", images.dtype) == "float32"
    return images if already else cast(images, "float32")


def _number_type(what: str, dtype) -> str:
    """Name of the dtype of an array or any library's tensor; refuses dtypes without numbers."""
    name = str(getattr(dtype, "name", dtype))
    if "int" not in name and "float" not in name:
        raise ValueError(f"expected {what} of integers or floats. Received: dtype={name}")
    return name


def _array(images) -> np.ndarray:
    try:
        return np.asarray(images)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"expected an array or a tensor of images. Received: a {type(images)}"
        ) from error


@dataclass(frozen=True)
class Preprocessing:
    """Evaluation preprocessing of an image before a network, as in timm.

    Called with an image, it resizes the shorter side to `image_size / crop_fraction` pixels,
    rounded down, and cuts out the central square of `image_size` pixels. Other values of
    `resize` keep the border.

    Args:
        image_size: Int, height and width of the result in pixels.
        crop_fraction: Float in `(0, 1]`, fraction of the resized shorter side that is kept.
        interpolation: `"nearest"`, `"bilinear"`, `"bicubic"` or `"lanczos"`, Pillow's filters.
            Defaults to `"bicubic"`.
        mean: Means of red, green and blue on the scale `[0, 1]`. Defaults to ImageNet's.
        std: Standard deviations of red, green and blue on the same scale. Defaults to ImageNet's.
        resize: `"crop"`; `"pad"` resizes the longer side to `image_size` pixels, and adds black
            borders; `"squash"` resizes both sides to it. Defaults to `"crop"`.

    Raises:
        ValueError: If an argument is out of its range.

    Example:
    >>> import numpy as np
    >>> from lambda_keras.applications import preprocessing_of
    >>> preprocessing = preprocessing_of("lambda_resnet50", 224)
    >>> preprocessing(np.zeros((480, 640, 3), "uint8")).shape
    (224, 224, 3)
    """

    image_size: int
    crop_fraction: float
    interpolation: str = "bicubic"
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    resize: str = "crop"

    def __post_init__(self) -> None:
        size, part = self.image_size, self.crop_fraction
        check(is_positive_integer(size), "image_size to be a positive integer", image_size=size)
        is_part = is_number(part) and 0 < part <= 1
        check(is_part, "crop_fraction above 0, up to 1", crop_fraction=part)
        check_choices(INTERPOLATIONS, interpolation=self.interpolation)
        check_choices(RESIZES, resize=self.resize)
        for name, values in (("mean", self.mean), ("std", self.std)):
            are_three_numbers = (
                isinstance(values, (tuple, list))
                and len(values) == 3
                and all(is_number(value) and math.isfinite(value) for value in values)
            )
            in_range = are_three_numbers and (name == "mean" or min(values) > 0)
            check(in_range, f"{name} to be three numbers, those of std above 0", **{name: values})

    def __call__(self, image: "Image | np.ndarray") -> np.ndarray:
        """Resizes an image and crops its center; `preprocess_input` comes after it.

        Args:
            image: Pillow image, or uint8 array of shape `(height, width, 3)`, RGB.

        Returns:
            Float32 array of shape `(image_size, image_size, 3)`, RGB, in `[0, 255]`.

        Raises:
            ValueError: If it is neither of these, or empty.
            ImportError: If Pillow is not installed.
        """
        image = _rgb(image)
        if self.resize == "crop":
            longest = MAX_ASPECT_RATIO * min(image.size)
            image = _center(image, min(image.width, longest), min(image.height, longest))
        sides = min(image.size), max(image.size)
        width, height = (self.resized(side, *sides) for side in image.size)
        image = image.resize((width, height), _pillow().Resampling[self.interpolation.upper()])
        return np.asarray(_center(image, self.image_size, self.image_size), "float32")

    def __str__(self) -> str:
        """The steps, as a model card states them."""
        shape, by = f"{self.image_size} x {self.image_size} pixels", self.interpolation
        if self.resize == "crop":
            resized = f"shorter side resized to {self.shorter_side} pixels"
            return f"{resized}, {by}, antialiased; central square of {shape}"
        if self.resize == "pad":
            resized = f"longer side resized to {self.image_size} pixels"
            return f"{resized}, {by}, antialiased; black borders to {shape}"
        return f"resized to {shape}, {by}, antialiased, whatever the shape of the image"

    def resized(self, side, shorter, longer):
        """Pixels of a side after resizing, before crop or borders: integers, or their tensors."""
        if self.resize == "crop":
            return self.shorter_side * side // shorter
        if self.resize == "pad":
            return -(-self.image_size * side // longer)  # Rounded up, never 0.
        return self.image_size + 0 * side

    @property
    def shorter_side(self) -> int:
        """Pixels of the shorter side after resizing, before the crop."""
        # 68 / (68 / 100) is below 100 in floating point.
        return math.floor(self.image_size / self.crop_fraction + 1e-9)


def preprocessing_of(architecture: str, image_size: int, weights: str = IMAGENET) -> Preprocessing:
    """Preprocessing with which the accuracy of a network was published.

    Without published weights it is the paper's: the center without a border of 16 pixels, the
    fraction `image_size / (image_size + 32)`.

    Args:
        architecture: Str, name of the network in the zoo.
        image_size: Int, height and width of its images in pixels.
        weights: Str, name of published weights. Most networks have `"imagenet"`, the default.

    Returns:
        A `Preprocessing`, which is called with an image.

    Raises:
        ValueError: If there is no such network, or the size is not a positive integer.
    """
    is_network = isinstance(architecture, str) and architecture in NETWORKS
    expected = "the name of a network, such as 'lambda_resnet50'"
    check(is_network, expected, architecture=architecture)
    is_size = is_positive_integer(image_size)
    check(is_size, "image_size to be a positive integer", image_size=image_size)
    row = NETWORKS[architecture]
    published = row.published(weights) or row.published(IMAGENET)
    paper = image_size / (image_size + CROP_PADDING)
    if not published:
        return Preprocessing(image_size, paper)
    crop = published.crop_fraction or paper
    return Preprocessing(image_size, crop, published.interpolation, resize=published.resize)


@cache
def imagenet_classes() -> tuple[tuple[str, str], ...]:
    """The 1000 classes of ILSVRC-2012, in the order of their WordNet ids, as `(id, name)`."""
    text = Path(__file__).with_name("imagenet_classes.txt").read_text(encoding="utf-8")
    return tuple((wnid, name) for wnid, name in map(str.split, text.splitlines()))


def classes_of(weights: str = IMAGENET) -> tuple[tuple[str, str], ...]:
    """The classes of published weights, each by its name in data sets and in words."""
    if weights in CLASS_NAMES:
        return tuple((name, name) for name in CLASS_NAMES[weights])
    return imagenet_classes()


def decode_predictions(
    predictions: Any, top: int = 5, weights: str = IMAGENET
) -> list[list[tuple[str, str, Any]]]:
    """Names the most probable classes, as `keras.applications` does, but without a download.

    Args:
        predictions: Array or tensor of shape `(images, classes)`, probabilities or logits.
        top: Int, how many classes to name for each image. Defaults to `5`.
        weights: `"imagenet"` or `"fashion_mnist"`, weights with these classes. Defaults to
            `"imagenet"`, of 1000 classes.

    Returns:
        For each image the list of its `top` classes, highest score first, each as
        `(WordNet id, name, score)`, or `(name, name, score)` of other data sets than ImageNet.

    Raises:
        ValueError: If predictions have another number of classes, or `top` is not a positive
            integer.

    Example:
    >>> import numpy as np
    >>> from lambda_keras.applications import decode_predictions
    >>> decode_predictions(np.eye(1000)[[207]], top=1)[0][0][:2]
    ('n02099601', 'golden_retriever')
    """
    check_choices((IMAGENET, *CLASS_NAMES), weights=weights)
    classes = classes_of(weights)
    predictions = _array(
        ops.convert_to_numpy(predictions) if ops.is_tensor(predictions) else predictions
    )
    shape, expected = predictions.shape, f"predictions of shape (images, {len(classes)})"
    check(shape[1:] == (len(classes),), expected, shape=shape)
    _number_type("predictions", predictions.dtype)
    check(not np.isnan(predictions).any(), "predictions that are numbers", predictions=np.nan)
    check(is_positive_integer(top), "top to be a positive integer", top=top)
    order = np.argsort(-predictions, axis=-1, kind="stable")[:, :top]
    return [
        [(*classes[index], scores[index]) for index in indices]
        for scores, indices in zip(predictions, order, strict=True)
    ]


def _center(image: "Image", width: int, height: int) -> "Image":
    # Rounded as in torchvision, which timm crops with.
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))


def _rgb(image: "Image | np.ndarray") -> "Image":
    image_type = _pillow().Image
    if isinstance(image, image_type):
        deep = image.mode[0] in "IF" or ";16" in str(getattr(image, "tile", ""))
        check(not deep, "an image of 8 bits per channel", image=image)
        return image if image.mode == "RGB" else image.convert("RGB")
    shape = getattr(image, "shape", ())
    if not isinstance(image, np.ndarray) or image.dtype != "uint8" or shape[2:] != (3,):
        received = f"{image.dtype} array" if isinstance(image, np.ndarray) else type(image)
        raise ValueError(
            "expected a Pillow image or a uint8 array of shape (height, width, 3). "
            f"Received: {received} of shape {shape}"
        )
    check(0 not in shape, "an image with pixels", shape=shape)
    return _pillow().fromarray(image)


def _pillow():
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        message = "Pillow, which resizes images, is not installed: pip install pillow"
        raise ImportError(message, name=error.name) from error
    return Image
