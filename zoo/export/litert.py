"""LiteRT (TensorFlow Lite) files, for phones and embedded devices."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import keras
import numpy as np
import tensorflow as tf

from lambda_keras.layers.pooling import SymmetricMaxPooling2D
from zoo.data.image_folder import check_readable
from zoo.errors import needs_extra
from zoo.export.graph import classifier_graph
from zoo.inference.classifier import Classifier

Quantization = Literal["float16", "int8"]

MAX_PHOTOGRAPHS = 200  # that ranges are measured on; more of them hardly change a range


def write(
    classifier: Classifier,
    folder: Path,
    quantize: Quantization | None = None,
    photographs: Sequence[Path] = (),
) -> None:
    """Writes `model.tflite` with the input `images` and the output `probabilities`.

    All operations are built into the runtime. Inputs and outputs are float32, quantised or not.

    Args:
        classifier: What is exported.
        folder: Made if it is not there.
        quantize: `"float16"` stores weights in 16 bits and computes in 32; `"int8"` stores weights
            and computes in 8 bits, where the runtime has such operations. Defaults to None.
        photographs: JPEG or PNG files like those that the model will see, for the ranges of
            `"int8"`; of more than `MAX_PHOTOGRAPHS` so many, evenly chosen.

    Raises:
        ValueError: If `"int8"` comes without photographs, or they come without `"int8"`, or cannot
            be read.
        ImportError: If ai-edge-litert is not installed.
    """
    if (quantize == "int8") != bool(photographs):
        raise ValueError(
            "expected photographs for the calibration of int8, and for it alone. "
            f"Received: quantize={quantize!r}, {len(photographs)} photographs"
        )
    with needs_extra("export"):
        import ai_edge_litert.interpreter  # noqa: F401
    model = classifier.model if quantize != "int8" else _with_finite_padding(classifier.model)
    graph = classifier_graph(model).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([graph], tf.Module())
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if quantize is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantize == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if quantize == "int8":
        chosen = _evenly(photographs)
        check_readable([str(path) for path in chosen])
        converter.representative_dataset = lambda: _views(classifier, chosen)
    content = converter.convert()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.tflite").write_bytes(content)


class _FinitePooling(SymmetricMaxPooling2D):
    """The same pooling, of every position and then thinned out.

    The padding of the original is minus infinity, over which a range of 8 bits would be stretched.
    """

    def call(self, inputs):
        outputs = keras.ops.max_pool(inputs, self.pool_size, 1, "same", "channels_last")
        return outputs[:, :: self.strides, :: self.strides]


def _with_finite_padding(model: keras.Model) -> keras.Model:
    def clone(layer: keras.layers.Layer) -> keras.layers.Layer:
        pooling = isinstance(layer, SymmetricMaxPooling2D)
        return (_FinitePooling if pooling else type(layer)).from_config(layer.get_config())

    copy = keras.models.clone_model(model, clone_function=clone)
    copy.set_weights(model.get_weights())
    return copy


def _evenly(photographs: Sequence[Path]) -> list[Path]:
    number = min(len(photographs), MAX_PHOTOGRAPHS)
    return [photographs[i] for i in np.linspace(0, len(photographs) - 1, number).astype(int)]


def _views(classifier: Classifier, photographs: Sequence[Path]) -> Iterator[list[np.ndarray]]:
    """Yields what the model sees of photographs, one at a time."""
    from rich.progress import track

    for path in track(photographs, "Calibrating"):
        yield [classifier.view(path)[None]]
