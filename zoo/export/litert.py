"""LiteRT (TensorFlow Lite) files, for phones and embedded devices."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zoo.export.base import DEFAULT, IMAGES, Options, Signatures

if TYPE_CHECKING:
    import keras

    from zoo.inference.classifier import Classifier

ZERO_POINTS = {"int8": -128, "uint8": 0}  # of images (scale 1) and probabilities (scale 1/256)


class LiteRT:
    """LiteRT's `model.tflite`: input `images`, output `probabilities`.

    All operations are built into the runtime. `"float16"` stores weights in 16 bits and computes in
    32; `"int8"` stores weights and computes in 8 bits, where the runtime has such operations, with
    ranges from the calibration images. Inputs and outputs stay float32 without an `io_type`; with
    one, all operations have to be of integers.
    """

    title, file = "LiteRT", "model.tflite"
    purpose = "phones and embedded devices"
    packages = ("ai_edge_litert.interpreter",)
    extra, frameworks, shared = "export", (), False
    ways: Mapping[str, Mapping[str, bool]] = {title: {}}
    quantizations: Mapping[str, Sequence[str]] = {"float16": (), "int8": ()}
    options: Mapping[str, str] = {
        "quantize": "",
        "calibration": "",
        "batch_size": "The number of images in a call is {0}. Shapes are static, as "
        "delegates of GPUs and NPUs need them.",
        "io_type": "All operations are of integers. `images` is {0} of scale 1 and zero point "
        "{zero_point}, which is black; `probabilities` has scale 1/256 and zero point "
        "{zero_point}.",
    }
    use = """\
A call needs at least one image.

```python
from ai_edge_litert.interpreter import Interpreter

run = Interpreter("model.tflite").get_signature_runner()
probabilities = run(images=images)["probabilities"]
```
"""

    def signatures(self, options: Options) -> dict[str, str]:
        return {DEFAULT: IMAGES}

    def write(self, classifier: "Classifier", folder: Path, options: Options) -> None:
        import tensorflow as tf
        from rich.progress import track

        from zoo.export.calibration import CalibrationImages
        from zoo.export.graph import classifier_graph

        quantize, batch_size, io_type = options.quantize, options.batch_size, options.io_type
        model = classifier.model if quantize != "int8" else with_finite_padding(classifier.model)
        graph = classifier_graph(model, batch_size=batch_size).get_concrete_function()
        converter = tf.lite.TFLiteConverter.from_concrete_functions([graph], tf.Module())
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        if quantize != "none":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantize == "float16":
            converter.target_spec.supported_types = [tf.float16]
        if quantize == "int8":
            images = CalibrationImages(classifier, options)
            see = _with_extremes if io_type is not None else np.asarray
            converter.representative_dataset = lambda: (
                [see(batch)] for batch in track(images, "Calibrating")
            )
        if io_type is not None:
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.as_dtype(io_type)
        content = converter.convert()
        if io_type is not None:
            check_ends(content, ZERO_POINTS[io_type])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.file).write_bytes(content)

    def runtime(self, folder: Path, threads: int = 0) -> "Runtime":
        return Runtime(folder, threads)


class Runtime:
    """ai-edge-litert on `threads` threads; 0: one."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter = Interpreter(str(folder / "model.tflite"), num_threads=threads or None)

    def signatures(self) -> Signatures:
        runner = self._interpreter.get_signature_runner(DEFAULT)
        inputs, outputs = (
            {
                name: (np.dtype(detail["dtype"]).name, detail["shape_signature"].tolist())
                for name, detail in details.items()
            }
            for details in (runner.get_input_details(), runner.get_output_details())
        )
        return {DEFAULT: (inputs, outputs)}

    def run(self, signature: str, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        return self._interpreter.get_signature_runner(signature)(**inputs)


def _with_extremes(images: np.ndarray) -> np.ndarray:
    """Makes one pixel black and one white, so that the scale of quantized images is 1."""
    changed = np.array(images)
    changed[:, 0, :2] = [[0], [255]]
    return changed


def check_ends(content: bytes, zero_point: int) -> None:
    """Checks that inputs are pixels, and outputs in 1/256, both counted from the zero point."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=content)
    details = (*interpreter.get_input_details(), *interpreter.get_output_details())
    quantization = [detail["quantization"] for detail in details]
    expected = [(1, zero_point), (1 / 256, zero_point)]
    if quantization != expected:
        raise ValueError(
            f"io_type: expected images and probabilities of (scale, zero point) {expected}. "
            f"Received: {quantization}"
        )


def with_finite_padding(model: "keras.Model") -> "keras.Model":
    """Copies a network, with max pooling that pads without infinities.

    LiteRT ignores "same" padding in maxima. With stride 1 it is symmetric; slices apply strides.
    """
    import keras

    from zoo.export.graph import with_pooling

    return with_pooling(
        model,
        lambda layer, inputs: keras.ops.max_pool(
            inputs, layer.pool_size, 1, "same", "channels_last"
        )[:, :: layer.strides, :: layer.strides],
    )
