"""OpenVINO's intermediate representation, for Intel's processors."""

import ctypes
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.export.base import DEFAULT, IMAGES, Options, Signatures

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier

# Disables telemetry: its module cannot be imported.
sys.modules.setdefault("openvino_telemetry", None)  # pyright: ignore[reportArgumentType]


class OpenVINO:
    """OpenVINO's `model.xml` and `model.bin`: input `images`, output `probabilities`.

    `"int8"` stores weights and computes in 8 bits, in the ranges of the images for calibration.
    """

    title, file = "OpenVINO", "model.xml"
    purpose = "Intel's processors"
    packages = ("openvino",)
    ways: Mapping[str, Mapping[str, Sequence[str]]] = {
        title: {},
        f"{title} with lambda layers in float32": {"float_layers": ("lambda",)},
    }
    quantizations: Mapping[str, Sequence[str]] = {"int8": ("nncf",)}
    options: Mapping[str, str] = {
        "quantize": "",
        "calibration": "",
        "batch_size": "The number of images in a call is {0}.",
    }
    use = """\
A call needs at least one image.

```python
import openvino

# As it was compared with Keras; new processors would compute in bfloat16.
model = openvino.compile_model("model.xml", "CPU", {{"INFERENCE_PRECISION_HINT": "f32"}})
probabilities = model(images)["probabilities"]
```
"""

    def signatures(self, options: Options) -> dict[str, str]:
        return {DEFAULT: IMAGES}

    def write(self, classifier: "Classifier", folder: Path, options: Options) -> None:
        import openvino

        from zoo.export.graph import runtime_graph

        graph = runtime_graph(classifier.model, batch_size=options.batch_size)
        model = openvino.convert_model(graph)
        if options.quantize == "int8":
            model = _quantized(model, classifier, options)
        folder.mkdir(parents=True, exist_ok=True)
        openvino.save_model(model, folder / self.file, compress_to_fp16=False)

    def runtime(self, folder: Path, threads: int = 0, precision: str = "f32") -> "Runtime":
        return Runtime(folder, threads, precision)


def _quantized(model: Any, classifier: "Classifier", options: Options) -> Any:
    import nncf

    from zoo.export.calibration import CalibrationImages

    nncf.set_log_level(logging.ERROR)
    images = CalibrationImages(classifier, options)
    floats = nncf.IgnoredScope(patterns=[f".*{name}.*" for name in options.float_layers])
    with keeping_signal_stack():
        # The fast correction of biases costs a small network 0.06 points, half of its agreement.
        return nncf.quantize(
            model,
            nncf.Dataset(images),
            subset_size=len(images),
            fast_bias_correction=False,
            ignored_scope=floats,
        )


class _SignalStack(ctypes.Structure):
    """`stack_t` of Linux."""

    _fields_ = (
        ("ss_sp", ctypes.c_void_p),
        ("ss_flags", ctypes.c_int),
        ("ss_size", ctypes.c_size_t),
    )


@contextmanager
def keeping_signal_stack() -> Iterator[None]:
    """Restores the stack of this thread's signal handlers.

    OpenVINO 2026.4 sets one for every model that it compiles. After two of them freed memory stays
    set, and Ctrl-C ends the process with a segmentation fault.
    """
    if sys.platform != "linux":
        yield
        return
    system, before = ctypes.CDLL(None), _SignalStack()
    system.sigaltstack(None, ctypes.byref(before))
    try:
        yield
    finally:
        system.sigaltstack(ctypes.byref(before), None)


class Runtime:
    """OpenVINO on the CPU, on `threads` threads; 0: one per core. `"bf16"` rounds to bfloat16."""

    def __init__(self, folder: Path, threads: int = 0, precision: str = "f32") -> None:
        import openvino

        # Recent processors would compute in bfloat16 by default.
        settings = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads}
        model = openvino.Core().read_model(folder / "model.xml")
        with keeping_signal_stack():
            self._model: Any = openvino.compile_model(model, "CPU", settings)

    def signatures(self) -> Signatures:
        inputs, outputs = (
            {
                port.any_name: (
                    port.element_type.to_dtype().name,
                    [-1 if size.is_dynamic else size.get_length() for size in port.partial_shape],
                )
                for port in ports
            }
            for ports in (self._model.inputs, self._model.outputs)
        )
        return {DEFAULT: (inputs, outputs)}

    def run(self, signature: str, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        outputs = self._model(dict(inputs))
        return {output.any_name: outputs[output] for output in self._model.outputs}
