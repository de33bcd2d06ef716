"""Classifiers as TensorFlow graphs: with constant weights, and the signatures of SavedModels."""

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from lambda_keras.applications import feature_extractor, preprocess_input
from lambda_keras.models.specs import STAGES
from zoo.data.crops import PNG, decode_center
from zoo.inference.classifier import Classifier
from zoo.inference.compiled import with_constants
from zoo.registry import CLASSIFIER

TOP = 5  # classes that image_bytes returns
MAX_MEGAPIXELS = 50  # of an encoded image

Outputs = dict[str, tf.Tensor]
Endpoint = tuple[Callable[[tf.Tensor], Outputs], tf.TensorSpec]


def classifier_graph(model: keras.Model) -> Any:
    """Returns a classifier as a graph with constant weights, preprocessing and named tensors.

    Args:
        model: Model from images that passed `preprocess_input` to probabilities.

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


def endpoints(classifier: Classifier, fold: bool) -> dict[str, Endpoint]:
    """Returns the functions and inputs of a SavedModel's signatures; see `saved_model.write`."""
    size = classifier.image_size
    network = _network(classifier, fold)

    def probabilities(images: tf.Tensor) -> Outputs:
        return {"probabilities": network(images)[CLASSIFIER]}

    def of_integers(images: tf.Tensor) -> Outputs:
        return probabilities(tf.cast(images, tf.float32))

    def features(images: tf.Tensor) -> Outputs:
        maps = network(images)
        return {name: maps[name] for name in STAGES}

    images = tf.TensorSpec((None, size, size, 3), tf.float32, "images")
    integers = tf.TensorSpec(images.shape, tf.uint8, "images")
    files = tf.TensorSpec((None,), tf.string, "image_bytes")
    return {
        "serving_default": (probabilities, images),
        "images_uint8": (of_integers, integers),
        "image_bytes": (_of_files(classifier, network), files),
        "features": (features, images),
    }


def _network(classifier: Classifier, fold: bool) -> Callable[[tf.Tensor], Outputs]:
    """Returns one function for all signatures; TensorFlow prunes the outputs that one discards."""
    model = feature_extractor(classifier.model, (*STAGES, CLASSIFIER))
    infer = with_constants(model) if fold else partial(model, training=False)
    shape = (None, classifier.image_size, classifier.image_size, 3)

    @tf.function(input_signature=[tf.TensorSpec(shape, tf.float32)], autograph=False)
    def network(images: tf.Tensor) -> Outputs:
        return infer(preprocess_input(images))

    return network


def _of_files(
    classifier: Classifier, network: Callable[[tf.Tensor], Outputs]
) -> Callable[[tf.Tensor], Outputs]:
    size = classifier.image_size
    view_spec = tf.TensorSpec((size, size, 3), tf.float32)

    def see(encoded: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([refuse_unfit(encoded)]):
            return decode_center(tf.identity(encoded), classifier.preprocessing)

    def of_files(image_bytes: tf.Tensor) -> Outputs:
        images = tf.map_fn(see, image_bytes, fn_output_signature=view_spec)
        top = min(TOP, len(classifier.class_names))
        scores, classes = tf.math.top_k(network(images)[CLASSIFIER], top)
        labels = tf.gather(tf.constant(list(classifier.class_names)), classes)
        return {"classes": classes, "labels": labels, "scores": scores}

    return of_files


def refuse_unfit(encoded: tf.Tensor) -> tf.Operation:
    """Refuses files that are no JPEG or PNG, or are too large, before memory is allocated."""
    is_jpeg = tf.image.is_jpeg(encoded)
    is_png = tf.strings.substr(encoded, 0, len(PNG)) == PNG
    has_size = tf.strings.length(encoded) >= 24  # of a PNG, after its signature
    known = tf.debugging.Assert(
        tf.logical_or(is_jpeg, tf.logical_and(is_png, has_size)),
        ["image_bytes: expected a JPEG or PNG image"],
    )

    def jpeg_shape() -> tf.Tensor:
        height_width: Any = tf.image.extract_jpeg_shape(encoded)[:2]
        return tf.reverse(height_width, [0])

    def png_shape() -> tf.Tensor:
        header: Any = tf.strings.substr(encoded, 16, 8)
        return tf.io.decode_raw(header, tf.int32, little_endian=False)

    with tf.control_dependencies([known]):
        shape = tf.cond(is_jpeg, jpeg_shape, png_shape)
    expected = f"image_bytes: expected at most {MAX_MEGAPIXELS} megapixels. Received: "
    received = tf.strings.reduce_join(tf.strings.as_string(shape), separator=" x ")
    pixels = tf.reduce_prod(tf.cast(shape, tf.int64))
    message = tf.strings.join([expected, received])
    return tf.debugging.Assert(pixels <= MAX_MEGAPIXELS * 10**6, [message])
