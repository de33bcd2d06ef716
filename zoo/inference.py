"""Asking a model about images."""

import keras
import numpy as np

from lambda_keras.applications import preprocess_input

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
