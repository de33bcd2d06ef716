"""OpenVINO's intermediate representation, for Intel's processors."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier

TITLE = "OpenVINO"
FILE = "model.xml"
PURPOSE = "Intel's processors"
PACKAGES = ("openvino",)
SIGNATURES = ("serving_default",)
WAYS = {TITLE: {}}
QUANTIZATIONS = ()
OPTIONS = {"batch_size": "The number of images in a call is {0}."}
USE = """\
A call needs at least one image.

```python
import openvino

# As it was compared with Keras; new processors would compute in bfloat16.
model = openvino.compile_model("model.xml", "CPU", {{"INFERENCE_PRECISION_HINT": "f32"}})
probabilities = model(images)["probabilities"]
```
"""

# Disables telemetry: its module cannot be imported.
sys.modules.setdefault("openvino_telemetry", None)  # pyright: ignore[reportArgumentType]


def write(classifier: "Classifier", folder: Path, batch_size: int | None = None) -> None:
    """Writes `model.xml` and `model.bin` with the input `images` and the output `probabilities`.

    With a `batch_size`, shapes are static.
    """
    import openvino

    from zoo.export.graph import classifier_graph

    model = openvino.convert_model(classifier_graph(classifier.model, batch_size=batch_size))
    folder.mkdir(parents=True, exist_ok=True)
    openvino.save_model(model, folder / "model.xml", compress_to_fp16=False)


class Runtime:
    """OpenVINO on the CPU, on `threads` threads; 0: one per core."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        import openvino

        # Recent processors would compute in bfloat16 by default.
        settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
        model = openvino.Core().read_model(folder / "model.xml")
        self._model: Any = openvino.compile_model(model, "CPU", settings)

    def signatures(self) -> dict[str, Any]:
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
        return {"serving_default": (inputs, outputs)}

    def run(self, signature: str, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        outputs = self._model(dict(inputs))
        return {output.any_name: outputs[output] for output in self._model.outputs}
