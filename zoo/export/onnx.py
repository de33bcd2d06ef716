"""ONNX files, for onnxruntime and other runtimes."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier

TITLE = "ONNX"
PURPOSE = "ONNX Runtime and others"
PACKAGES = ("onnx", "onnxruntime", "tf2onnx")
SIGNATURES = ("serving_default",)
WAYS = {TITLE: {}}
QUANTIZATIONS = ()
USE = """\
```python
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
(probabilities,) = session.run(["probabilities"], {{"images": images}})
```
"""


def write(classifier: "Classifier", folder: Path) -> None:
    """Writes `model.onnx` with the input `images` and the output `probabilities`."""
    import onnx
    import tf2onnx

    from zoo.export.graph import classifier_graph

    # `keras.Model.export` patches tf2onnx, which is not needed and warns with NumPy 2.
    function = classifier_graph(classifier.model)
    model, _ = tf2onnx.convert.from_function(function, function.input_signature)
    for tensor in (*model.graph.input, *model.graph.output):
        tensor.type.tensor_type.shape.dim[0].dim_param = "batch"
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")


class Runtime:
    """onnxruntime on the CPU, on `threads` threads; 0: one per core."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(
            folder / "model.onnx", options, providers=["CPUExecutionProvider"]
        )

    def run(self, signature: str, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        names = [output.name for output in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, dict(inputs)), strict=True))
