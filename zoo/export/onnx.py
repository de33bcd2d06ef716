"""ONNX files, for onnxruntime and other runtimes."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.export.base import DEFAULT, IMAGES, LAMBDA_MAPS, Options, Signatures

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier


class Onnx:
    """`model.onnx`: input `images`, output `probabilities`, and maps of lambda layers.

    `"float16"` stores weights in 16 bits, which the runtime converts to 32 when it loads them.
    `"int8"` stores convolutions in 8 bits, with QuantizeLinear and DequantizeLinear around them;
    lambda layers stay in float32.
    """

    title, file = "ONNX", "model.onnx"
    purpose = "ONNX Runtime and others"
    packages = ("onnx", "onnxruntime", "tf2onnx")
    extra, frameworks, shared = "export", (), False
    ways: Mapping[str, Mapping[str, bool]] = {title: {}}
    quantizations: Mapping[str, Sequence[str]] = {
        "float16": (),
        "int8": ("onnxruntime.quantization",),
    }
    options: Mapping[str, str] = {
        "quantize": "",
        "calibration": "",
        "lambda_maps": "",
        "batch_size": "The number of images in a call is {0}.",
        "activation_type": "Activations are {0}, symmetric around 0, as TensorRT expects; CPUs are "
        "faster with uint8.",
        "layout": "`images` has channels first, `(batch, 3, height, width)`, as "
        "`images.transpose(0, 3, 1, 2)` or OpenCV's `blobFromImage(image, swapRB=True)`.",
    }
    use = """\
A call needs at least one image.

```python
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
(probabilities,) = session.run(["probabilities"], {{"images": images}})
```
"""

    def signatures(self, options: Options) -> dict[str, str]:
        return {DEFAULT: IMAGES} | ({LAMBDA_MAPS: LAMBDA_MAPS} if options.lambda_maps else {})

    def write(self, classifier: "Classifier", folder: Path, options: Options) -> None:
        import onnx
        import tf2onnx

        from zoo.export.graph import runtime_graph

        # `keras.Model.export` would patch tf2onnx: the patch is not needed and warns with NumPy 2.
        function = runtime_graph(classifier.model, options.lambda_maps, options.batch_size)
        channels_first = ["images"] if options.layout == "nchw" else []
        model, _ = tf2onnx.convert.from_function(
            function, function.input_signature, inputs_as_nchw=channels_first
        )
        for tensor in () if options.batch_size else (*model.graph.input, *model.graph.output):
            tensor.type.tensor_type.shape.dim[0].dim_param = "batch"
        if options.quantize == "float16":
            _store_in_float16(model.graph)
        if options.quantize == "int8":
            model = _quantized(model, classifier, options)
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(model, folder / self.file)

    def runtime(self, folder: Path, threads: int = 0) -> "Runtime":
        return Runtime(folder, threads)


class Batches:
    """Batches of images with the interface of onnxruntime's `CalibrationDataReader`."""

    def __init__(self, batches: Iterator[np.ndarray]) -> None:
        self._batches = batches

    def get_next(self) -> dict[str, np.ndarray] | None:
        batch = next(self._batches, None)
        return None if batch is None else {"images": batch}


def _quantized(model: Any, classifier: "Classifier", options: Options) -> Any:
    import onnx
    from onnxruntime import quantization

    from zoo.export.calibration import CalibrationImages

    axes = (0, 3, 1, 2) if options.layout == "nchw" else (0, 1, 2, 3)
    images = CalibrationImages(classifier, options)
    with tempfile.TemporaryDirectory() as scratch:
        plain, fused, quantized = (Path(scratch, f"{step}.onnx") for step in range(3))
        onnx.save(model, plain)
        quantization.quant_pre_process(plain, fused, skip_symbolic_shape=True)
        # Products of two activations do not run in 8 bits per channel.
        nodes = onnx.load(fused).graph.node
        floats = [node.name for node in nodes if "lambda" in node.name]
        # CPUs multiply unsigned by signed integers; signed activations take twice the time.
        # TensorRT supports only signed activations, no zero points, and biases in floats.
        signed, types = options.activation_type == "int8", quantization.QuantType
        quantization.quantize_static(
            fused,
            quantized,
            Batches(batch.transpose(axes) for batch in images),
            op_types_to_quantize=["Conv", "Gemm", "Add", "MaxPool", "Relu"],
            nodes_to_exclude=floats,
            per_channel=True,
            activation_type=types.QInt8 if signed else types.QUInt8,
            extra_options={"ActivationSymmetric": signed, "QuantizeBias": not signed},
        )
        return onnx.load(quantized)


def _store_in_float16(graph: Any) -> None:
    from onnx import TensorProto, helper, numpy_helper

    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) > 1:  # no bias, no constant
            name, weights = tensor.name, numpy_helper.to_array(tensor).astype("float16")
            tensor.CopyFrom(numpy_helper.from_array(weights, f"{name}_float16"))
            cast = helper.make_node("Cast", [tensor.name], [name], to=TensorProto.FLOAT)
            graph.node.insert(0, cast)


class Runtime:
    """onnxruntime on the CPU, on `threads` threads; 0: one per core."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(
            folder / "model.onnx", options, providers=["CPUExecutionProvider"]
        )

    def signatures(self) -> Signatures:
        inputs, outputs = (
            {
                node.name: (
                    node.type.removeprefix("tensor(")[:-1].replace("float", "float32"),
                    [size if isinstance(size, int) else -1 for size in node.shape],
                )
                for node in nodes
            }
            for nodes in (self.session.get_inputs(), self.session.get_outputs())
        )
        names = (DEFAULT, LAMBDA_MAPS) if len(outputs) > 1 else (DEFAULT,)
        return dict.fromkeys(names, (inputs, outputs))

    def run(self, signature: str, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        names = ["probabilities"]
        if signature == LAMBDA_MAPS:
            names = [output.name for output in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, dict(inputs)), strict=True))
