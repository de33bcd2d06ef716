"""OpenVINO's intermediate representation, for Intel's processors."""

import ctypes
import logging
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.export.base import DEFAULT, IMAGES, MAX_LOSS, Options, Signatures

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier

# Disables telemetry by making its module impossible to import.
sys.modules.setdefault("openvino_telemetry", None)  # pyright: ignore[reportArgumentType]


# Accuracy control: operations that return to float32, at most, and images that rank them.
MOST_IN_FLOAT32, RANKING = 10, 100


class OpenVINO:
    """OpenVINO's `model.xml` and `model.bin`: input `images`, output `probabilities`.

    `"int8"` stores weights and computes in 8 bits, with ranges from the calibration images.
    """

    title, file = "OpenVINO", "model.xml"
    purpose = "Intel's processors"
    packages = ("openvino",)
    extra, frameworks, shared = "export", (), False
    ways: Mapping[str, Mapping[str, float]] = {
        title: {},
        f"{title} with float32 where accuracy needs it": {"max_loss": MAX_LOSS},
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

    def write(self, classifier: "Classifier", folder: Path, options: Options) -> list[str]:
        import openvino

        from zoo.export.graph import runtime_graph

        graph = runtime_graph(classifier.model, batch_size=options.batch_size)
        model, notes = openvino.convert_model(graph), []
        if options.quantize == "int8":
            model, notes = _quantized(model, classifier, options)
        folder.mkdir(parents=True, exist_ok=True)
        openvino.save_model(model, folder / self.file, compress_to_fp16=False)
        return notes

    def runtime(self, folder: Path, threads: int = 0, precision: str = "f32") -> "Runtime":
        return Runtime(folder, threads, precision)


def _quantized(model: Any, classifier: "Classifier", options: Options) -> tuple[Any, list[str]]:
    """Quantizes a model; also returns card lines about operations that stay in float32."""
    import nncf

    from zoo.export.calibration import CalibrationImages

    nncf.set_log_level(logging.ERROR)
    images = CalibrationImages(classifier, options)
    # The fast correction of biases costs a small network 0.06 points, half of its agreement.
    settings: Any = {"subset_size": len(images), "fast_bias_correction": False}
    with keeping_signal_stack():
        quantized = nncf.quantize(model, nncf.Dataset(images), **settings)
        if options.max_loss is None:
            return quantized, []
        # NNCF does not report what it changes, so both models are compared.
        accurate: Any = nncf.quantize_with_accuracy_control(
            model,
            nncf.Dataset(images),
            nncf.Dataset(options.held_out, lambda pair: np.stack([pair[0]] * images.batch)),
            partial(_accuracy, images.batch),
            max_drop=options.max_loss,
            advanced_accuracy_restorer_parameters=nncf.AdvancedAccuracyRestorerParameters(
                max_num_iterations=MOST_IN_FLOAT32, ranking_subset_size=RANKING
            ),
            **settings,
        )
    lost = sorted(_in_8_bits(quantized) - _in_8_bits(accurate))
    names = f"{', '.join(lost)} in model.xml" if lost else "nothing"
    return accurate, [f"in float32 for the sake of accuracy: {names}"]


def _accuracy(
    batch: int, model: Any, held_out: Iterable[tuple[np.ndarray[Any, Any], int]]
) -> tuple[float, list[list[np.ndarray[Any, Any]]]]:
    """Returns the accuracy of a compiled model, and the outputs of each image."""
    right, outputs = [], []
    for image, label in held_out:
        probabilities = model(np.stack([image] * batch))[0][:1]
        outputs.append([probabilities])
        right.append(probabilities.argmax() == label)
    return float(np.mean(right)), outputs


def _in_8_bits(model: Any) -> set[str]:
    """Returns the names of the operations with inputs or outputs in 8 bits."""
    names = (op.friendly_name for op in model.get_ops() if op.get_type_name() == "FakeQuantize")
    return {name.rpartition("/fq_")[0] for name in names}


class _SignalStack(ctypes.Structure):
    """`stack_t` of Linux."""

    _fields_ = (
        ("ss_sp", ctypes.c_void_p),
        ("ss_flags", ctypes.c_int),
        ("ss_size", ctypes.c_size_t),
    )


@contextmanager
def keeping_signal_stack() -> Generator[None]:
    """Restores the stack of this thread's signal handlers.

    OpenVINO 2026.4 sets a stack for every model that it compiles. After two models the stack is
    freed memory, and Ctrl-C ends the process with a segmentation fault.
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


# Any: models and settings of OpenVINO, which is imported where it is needed.
def compiled(model: Any, threads: int = 0, precision: str = "f32", **settings: Any) -> Any:
    """Compiles a model for the CPU, with further settings of OpenVINO."""
    import openvino

    # Recent processors would compute in bfloat16 by default.
    settings |= {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads}
    with keeping_signal_stack():
        return openvino.compile_model(model, "CPU", settings)


class Runtime:
    """OpenVINO on the CPU, on `threads` threads; 0: one per core. `"bf16"` rounds to bfloat16."""

    def __init__(self, folder: Path, threads: int = 0, precision: str = "f32") -> None:
        import openvino

        model = openvino.Core().read_model(folder / "model.xml")
        self.model: Any = compiled(model, threads, precision)

    def signatures(self) -> Signatures:
        inputs, outputs = (
            {
                port.any_name: (
                    port.element_type.to_dtype().name,
                    [-1 if size.is_dynamic else size.get_length() for size in port.partial_shape],
                )
                for port in ports
            }
            for ports in (self.model.inputs, self.model.outputs)
        )
        return {DEFAULT: (inputs, outputs)}

    def run(self, signature: str, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        outputs = self.model(dict(inputs))
        return {output.any_name: outputs[output] for output in self.model.outputs}
