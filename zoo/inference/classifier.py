"""Classifiers: a model with its preprocessing and class names."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lambda_keras.applications import fold_batch_normalization, preprocess_input
from lambda_keras.applications.preprocessing import Preprocessing
from lambda_keras.layers.arguments import is_positive_integer
from zoo.data.ahead import read_ahead
from zoo.data.crops import decode_center, resize_center
from zoo.errors import require
from zoo.inference.images import Image, read_image, several
from zoo.inference.predictions import ClassScore, check_outputs
from zoo.model_card import LABELS, versions
from zoo.precision import resolve_precision

BATCH_SIZE = 32


def predict(model: keras.Model, images: np.ndarray) -> np.ndarray:
    """Runs a model with Keras itself, without folding; outputs are finite, `(count, ...)`.

    Images are RGB in [0, 255], of shape `(count, height, width, 3)`.
    """
    # With several devices, `predict_on_batch` would return outputs once per device.
    images = preprocess_input(images)
    outputs: Any = model.predict(images, BATCH_SIZE, verbose=0)  # pyright: ignore[reportArgumentType]
    named = {"outputs": outputs} if isinstance(outputs, np.ndarray) else outputs
    check_outputs(model.name, named)
    return outputs


def with_constants(
    model: keras.Model,
    extend: Callable[[keras.Model], keras.Model] = lambda folded: folded,
    precision: str | None = None,
) -> Callable[[Any], Any]:
    """Returns the inference function of a model, with its weights as constants.

    Batch normalization is folded, then `extend` may add outputs. `precision` is a dtype policy;
    None: the model's. Values computed from weights alone, such as tables of position embeddings,
    become constants, too: LiteRT ignores the zero point of quantized convolution weights that are
    computed.
    """
    folded = extend(fold_batch_normalization(model, precision))
    weights = [
        [keras.ops.convert_to_numpy(variable.value) for variable in variables]
        for variables in (folded.trainable_variables, folded.non_trainable_variables)
    ]
    return lambda inputs: folded.stateless_call(*weights, inputs, training=False)[0]


@dataclass(frozen=True)
class Classifier:
    """A model with its preprocessing and the names of its classes."""

    name: str  # of the model in the zoo
    model: keras.Model  # for images that passed `preprocess_input`
    preprocessing: Preprocessing  # as when the accuracy was measured
    class_names: Sequence[str]
    precision: str | None = None  # dtype policy of `infer`; None: the model's
    batch_size: int = BATCH_SIZE

    @property
    def image_size(self) -> int:
        """Height and width of the model's images in pixels."""
        return self.preprocessing.image_size

    def computing_in(self, precision: str | None) -> "Classifier":
        """Returns the classifier with another dtype policy of `infer`, which may be `auto`."""
        return replace(self, precision=resolve_precision(precision))

    @cached_property
    def infer(self) -> Callable[[np.ndarray], np.ndarray]:
        """Compiled function from preprocessed images to probabilities, `(count, classes)`.

        It holds a copy of the weights. The first call compiles it for all batch sizes; JAX compiles
        it for each batch size.
        """
        run = with_constants(self.model, precision=self.precision)
        if keras.config.backend() == "jax":
            import jax  # pyright: ignore[reportMissingImports]

            on_jax = jax.jit(run)
            return lambda inputs: np.asarray(on_jax(inputs))
        spec = tf.TensorSpec(self.model.input_shape, tf.float32)
        in_graph: Any = tf.function(run, input_signature=[spec], autograph=False)
        return lambda inputs: in_graph(inputs).numpy()

    def __call__(self, images: Image | Sequence[Image], top: int = 5) -> list[Any]:
        """Predicts the most probable classes of images, after preprocessing.

        Args:
            images: One image or several: each the path of an image file, a Pillow image, or a
                uint8 array `(height, width, 3)`, RGB. Several are a list, or an array `(count,
                height, width, 3)`.
            top: Number of classes, from 1; all if there are fewer. Defaults to 5.

        Returns:
            `ClassScore(index, name, probability)` of each class, the most probable one first: a
            list of them for one image, and a list of such lists for several.

        Raises:
            ValueError: If a file is unreadable, an array has another shape or dtype, or the
                outputs of the model are not finite.
        """
        require(is_positive_integer(top), "expected top to be a positive integer", repr(top))
        every, is_one = several(images)
        scores = list(self.predict_views(map(self.view, every), top))
        return scores[0] if is_one else scores

    def predict_views(self, views: Iterable[np.ndarray], top: int) -> Iterator[list[ClassScore]]:
        """Yields the predictions for each of many results of `view`; see `__call__`."""
        left = iter(views)
        while batch := list(islice(left, self.batch_size)):
            probabilities = self.infer(preprocess_input(np.stack(batch))).astype("float64")
            check_outputs(self.name, {"probabilities": probabilities})
            for row in probabilities.tolist():
                order = sorted(range(len(row)), key=row.__getitem__, reverse=True)[:top]
                yield [ClassScore(i, self.class_names[i], row[i]) for i in order]

    def views(self, photos: Iterable[Path]) -> Iterator[np.ndarray]:
        """Yields the `view` of each image file, and reads the next batch ahead."""
        return read_ahead(self.view, photos, self.batch_size)

    def view(self, image: Image) -> np.ndarray:
        """Preprocesses an image for the model: `(size, size, 3)`, in [0, 255]."""
        return read_image(image, self._decode_center, self._resize_center).numpy()

    @cached_property
    def _decode_center(self) -> Any:
        decoded = partial(decode_center, preprocessing=self.preprocessing)
        return tf.function(decoded, [tf.TensorSpec([], tf.string)], autograph=False)

    @cached_property
    def _resize_center(self) -> Any:
        resized = partial(resize_center, preprocessing=self.preprocessing)
        pixels = tf.TensorSpec([None, None, 3], tf.uint8)
        return tf.function(resized, [pixels], autograph=False)

    def card(self, normalizes: str) -> dict[str, str]:
        """Returns card fields on inputs, classes and size; `normalizes` names the normalizer."""
        seen, size = self.preprocessing, self.image_size
        return {
            "Preprocessing": str(seen),
            "Images": f"RGB in [0, 255], {size} x {size} pixels; {normalizes} normalizes them, by "
            f"the means {seen.mean} and deviations {seen.std} of [0, 1]",
            "Classes": f"{len(self.class_names):,}, in the order of {LABELS}",
            "Parameters": f"{self.model.count_params():,}",
            "Written with": versions("lambda_keras", "keras", "tensorflow"),
        }
