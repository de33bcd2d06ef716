"""TensorFlow graphs of classifiers with constant weights, and signatures of SavedModels."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from lambda_keras.applications import (
    feature_extractor,
    fold_batch_normalization,
    preprocess_input,
)
from lambda_keras.layers.pooling import SymmetricMaxPooling2D
from lambda_keras.layers.position_lambdas import compiling_for
from lambda_keras.models.specs import STAGES
from lambda_keras.weights.fit import CLASSIFIER
from zoo.data.crops import PNG, decode_center
from zoo.export.base import FEATURES, FILES, IMAGES, INTEGERS, Options
from zoo.inference.classifier import Classifier, with_constants
from zoo.inference.lambda_maps import with_lambda_maps

TOP = 5  # classes that image_bytes returns
MAX_MEGAPIXELS = 50  # of an encoded image
IN_JSON = 'in JSON {"b64": "..."} with its standard base64, without the prefix of a data URL'
HEAD = 64  # characters that tell base64 from other files
BASE64 = r"(data:\C*|[A-Za-z0-9+/_-]{8,}[=\s]*)"

Outputs = dict[str, tf.Tensor]
Endpoint = tuple[Callable[[tf.Tensor], Outputs], tf.TensorSpec]


def classifier_graph(
    model: keras.Model,
    lambda_maps: Sequence[str] = (),
    batch_size: int | None = None,
    kind: str = "cpu",
) -> Any:  # TensorFlow's stubs have no type of its functions
    """Returns a `tf.function` with constant weights, preprocessing and named tensors.

    It computes `probabilities`, `(batch, classes)`, from `images`, float32 of shape
    `(batch, height, width, 3)` in [0, 255], and the maps of some lambda layers
    (`zoo.inference.lambda_maps.with_lambda_maps`). With a `batch_size`, all shapes are static.
    The `kind` of device decides how lambda layers compute; `runtime`: OpenVINO and ONNX Runtime.
    """
    infer = with_constants(model, partial(with_lambda_maps, names=lambda_maps))
    signature = tf.TensorSpec((batch_size, *model.input_shape[1:]), tf.float32, "images")

    @tf.function(input_signature=[signature], autograph=False)
    def classify(images: tf.Tensor) -> Any:
        with compiling_for(kind):
            return infer(preprocess_input(images))

    return classify


Pool = Callable[[SymmetricMaxPooling2D, Any], Any]  # of a layer and its inputs


class Pooling(SymmetricMaxPooling2D):
    """Symmetric max pooling by a function."""

    def __init__(self, pool: Pool, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.keep(locals())

    def call(self, inputs: tf.Tensor) -> Any:
        return self.pool(self, inputs)


def with_pooling(model: keras.Model, pool: Pool) -> keras.Model:
    """Copies a network, with `pool(layer, inputs)` in place of symmetric max pooling.

    The layer itself pads with minus infinity, which would ruin the ranges of int8.
    """

    def clone(layer: keras.layers.Layer) -> keras.layers.Layer:
        config = layer.get_config()
        if isinstance(layer, SymmetricMaxPooling2D):
            return Pooling.from_config({**config, "pool": pool})
        return type(layer).from_config(config)

    copy = keras.models.clone_model(model, clone_function=clone)
    copy.set_weights(model.get_weights())
    return copy


def runtime_graph(
    model: keras.Model, lambda_maps: Sequence[str] = (), batch_size: int | None = None
) -> Any:  # as `classifier_graph`
    """Returns `classifier_graph` in the form that is the fastest in OpenVINO and ONNX Runtime."""

    def pool(layer: SymmetricMaxPooling2D, inputs: tf.Tensor) -> Any:  # one operation, no padding
        reach = [layer.pool_size // 2] * 2
        padding: Any = [[0, 0], reach, reach, [0, 0]]
        return tf.nn.max_pool2d(inputs, layer.pool_size, layer.strides, padding)

    return classifier_graph(with_pooling(model, pool), lambda_maps, batch_size, "runtime")


def endpoints(classifier: Classifier, options: Options) -> dict[str, Endpoint]:
    """Returns the function and input of each computation that a SavedModel's signatures have.

    An empty batch has outputs of length 0.
    """
    size, model = classifier.image_size, classifier.model
    if options.precision is not None:
        model = fold_batch_normalization(model, options.precision)
    model = feature_extractor(model, (*STAGES, CLASSIFIER))
    infer = with_constants(model) if options.fold else partial(model, training=False)
    images = tf.TensorSpec((None, size, size, 3), tf.float32, "images")

    # One function for all signatures: TensorFlow prunes the outputs that a signature discards.
    @tf.function(input_signature=[images], autograph=False)
    def network(images: tf.Tensor) -> Outputs:
        # Convolutions of oneDNN fail on empty batches: a black image fills them.
        count = tf.shape(images)[0]
        missing: Any = [[0, tf.cast(count < 1, tf.int32)], [0, 0], [0, 0], [0, 0]]
        outputs = infer(preprocess_input(tf.pad(images, missing)))
        return {name: tf.cast(output[:count], tf.float32) for name, output in outputs.items()}

    def probabilities(images: tf.Tensor) -> Outputs:
        return {"probabilities": network(images)[CLASSIFIER]}

    def classify_integers(images: tf.Tensor) -> Outputs:
        return probabilities(tf.cast(images, tf.float32))

    def classify_files(image_bytes: tf.Tensor) -> Outputs:
        images = map_files(
            partial(decode_center, preprocessing=classifier.preprocessing),
            image_bytes,
            tf.TensorSpec((size, size, 3), tf.float32),
        )
        top = min(TOP, len(classifier.class_names))
        scores, classes = tf.math.top_k(network(images)[CLASSIFIER], top)
        labels = tf.gather(tf.constant(list(classifier.class_names)), classes)
        return {"classes": classes, "labels": labels, "scores": scores}

    def features(images: tf.Tensor) -> Outputs:
        maps = network(images)
        return {name: maps[name] for name in STAGES}

    return {
        IMAGES: (probabilities, images),
        INTEGERS: (classify_integers, tf.TensorSpec(images.shape, tf.uint8, "images")),
        FILES: (classify_files, tf.TensorSpec((None,), tf.string, FILES)),
        FEATURES: (features, images),
    }


# Any: nested tensors, and their dtypes or specifications.
def map_files(read: Callable[[tf.Tensor], Any], files: tf.Tensor, outputs: Any) -> Any:
    """Applies a function to each image file of a request, after `check_file`."""
    return tf.map_fn(
        lambda numbered: read(check_file(*numbered)),
        (files, tf.range(tf.size(files))),
        fn_output_signature=outputs,
    )


def check_file(encoded: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Refuses files that are not JPEG or PNG, or too large, before memory is allocated."""
    name = tf.strings.join(["image_bytes: image ", tf.strings.as_string(index)])
    is_jpeg = tf.image.is_jpeg(encoded)
    is_png = tf.strings.substr(encoded, 0, len(PNG)) == PNG
    has_size = tf.strings.length(encoded) >= 24  # a PNG up to its width and height
    is_text = tf.strings.regex_full_match(tf.strings.substr(encoded, 0, HEAD), BASE64)
    received = tf.where(is_text, " Received: base64 text, so encoded twice or not decoded", "")
    known = tf.debugging.Assert(
        tf.logical_or(is_jpeg, tf.logical_and(is_png, has_size)),
        [tf.strings.join([name, f": expected a JPEG or PNG image, {IN_JSON}.", received])],
    )

    def jpeg_shape() -> tf.Tensor:
        height_width: Any = tf.image.extract_jpeg_shape(encoded)[:2]
        return tf.reverse(height_width, [0])

    def png_shape() -> tf.Tensor:
        header: Any = tf.strings.substr(encoded, 16, 8)
        return tf.io.decode_raw(header, tf.int32, little_endian=False)

    with tf.control_dependencies([known]):
        shape = tf.cond(is_jpeg, jpeg_shape, png_shape)
    expected = f": expected at most {MAX_MEGAPIXELS} megapixels. Received: "
    size = tf.strings.reduce_join(tf.strings.as_string(shape), separator=" x ")
    pixels = tf.reduce_prod(tf.cast(shape, tf.int64))
    message = tf.strings.join([name, expected, size])
    small = tf.debugging.Assert(pixels <= MAX_MEGAPIXELS * 10**6, [message])
    with tf.control_dependencies([small]):
        return tf.identity(encoded)
