"""Classifiers as graphs of TensorFlow without variables."""

from typing import Any

import keras
import tensorflow as tf

from lambda_keras.applications import preprocess_input
from zoo.inference.compiled import with_constants


def classifier_graph(model: keras.Model) -> Any:
    """Returns a classifier with constant weights and its preprocessing, under names.

    Args:
        model: Takes images that passed `preprocess_input`, gives probabilities.

    Returns:
        A `tf.function` from `images`, float32 of shape `(batch, height, width, 3)` in [0, 255], to
        a dictionary of `probabilities` of shape `(batch, classes)`.
    """
    infer = with_constants(model)
    signature = tf.TensorSpec(model.input_shape, tf.float32, "images")

    @tf.function(input_signature=[signature], autograph=False)
    def classify(images):
        return {"probabilities": infer(preprocess_input(images))}

    return classify
