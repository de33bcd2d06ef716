"""Writes SavedModels for TensorFlow Serving."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from lambda_keras.applications import feature_extractor, preprocess_input
from lambda_keras.models.specs import STAGES
from zoo.data.crops import PNG, decode_centre
from zoo.errors import install
from zoo.inference.classifier import Classifier
from zoo.inference.compiled import with_constants
from zoo.registry import CLASSIFIER

TOP = 5  # classes that image_bytes names
MAX_MEGAPIXELS = 50  # of an encoded image
WARM_UP = Path("assets.extra", "tf_serving_warmup_requests")

Outputs = dict[str, tf.Tensor]


def write(classifier: Classifier, folder: Path, fold: bool = True) -> None:
    """Writes a SavedModel with the signatures below, and a warm-up request for each.

    Without tensorflow-serving-api there are no warm-up requests, and a line says so.

    | signature | input | outputs |
    | --- | --- | --- |
    | serving_default | images: float32, (batch, size, size, 3), RGB in [0, 255] | probabilities |
    | images_uint8 | images: uint8, likewise | probabilities |
    | image_bytes | image_bytes: files, JPEG or PNG, (batch,) | classes, labels, scores |
    | features | images: float32 | c2, c3, c4, c5 |

    Args:
        classifier: What to write.
        folder: New or empty folder.
        fold: Whether batch normalization is folded into convolutions and projections and weights
            are constants of the graph; or variables, for the rounding of Keras. Defaults to True.
    """
    size = classifier.image_size
    archive: Any = keras.export.ExportArchive()
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
    archive.add_endpoint("serving_default", probabilities, [images])
    archive.add_endpoint("images_uint8", of_integers, [integers])
    archive.add_endpoint("image_bytes", _of_files(classifier, network), [files])
    archive.add_endpoint("features", features, [images])
    archive.write_out(folder, verbose=False)
    _write_warm_up(classifier, folder / WARM_UP)


def _network(classifier: Classifier, fold: bool) -> Callable[[tf.Tensor], Outputs]:
    """Returns one graph for all signatures; what one of them does not need is not computed."""
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
            return decode_centre(tf.identity(encoded), classifier.preprocessing)

    def of_files(image_bytes: tf.Tensor) -> Outputs:
        images = tf.map_fn(see, image_bytes, fn_output_signature=view_spec)
        top = min(TOP, len(classifier.class_names))
        scores, classes = tf.math.top_k(network(images)[CLASSIFIER], top)
        labels = tf.gather(tf.constant(list(classifier.class_names)), classes)
        return {"classes": classes, "labels": labels, "scores": scores}

    return of_files


def refuse_unfit(encoded: tf.Tensor) -> tf.Operation:
    """Fails on a file that is no JPEG or PNG image, or too large, before it takes memory."""
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


def _write_warm_up(classifier: Classifier, path: Path) -> None:
    """Writes what the server asks a new version before users do: the first call is slow."""
    try:
        from tensorflow_serving.apis.predict_pb2 import PredictRequest
        from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog, PredictLog
    except ModuleNotFoundError:
        print(f"no warm-up requests, which need a package: {install('export')}")
        return
    size = classifier.image_size
    grey = np.full((1, size, size, 3), 128, "uint8")
    floats = grey.astype("float32")
    files = np.array([tf.io.encode_jpeg(grey[0]).numpy()])
    requests: Mapping[str, tuple[str, np.ndarray]] = {
        "serving_default": ("images", floats),
        "images_uint8": ("images", grey),
        "image_bytes": ("image_bytes", files),
        "features": ("images", floats),
    }
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as file:
        for signature, (name, array) in requests.items():
            request = PredictRequest()
            request.model_spec.name = classifier.name
            request.model_spec.signature_name = signature
            request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
            log = PredictionLog(predict_log=PredictLog(request=request))
            file.write(log.SerializeToString())
