"""Models as graphs of TensorFlow without variables."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from lambda_keras.applications import preprocess_input


def with_constants(model: keras.Model) -> Callable[[Any], Any]:
    """Returns a model, in inference, as a function of tensors with its weights as constants.

    In a graph of it, what is computed from weights alone becomes constant too: normalisation is
    folded into convolutions, and tables of position embeddings are computed once. LiteRT needs
    that for right answers: it takes quantised weights of a convolution that were computed, and so
    have a zero point, as if they had none.
    """
    weights = [
        [variable.value.numpy() for variable in variables]
        for variables in (model.trainable_variables, model.non_trainable_variables)
    ]
    return lambda inputs: model.stateless_call(*weights, inputs, training=False)[0]


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
