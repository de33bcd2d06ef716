"""The formats of exports: what they are for, and how they are used."""

from dataclasses import dataclass

_SAVED_MODEL = """\
In the folder that holds `{name}/`, the first line starts the server, the second asks it:

```sh
docker run -p 127.0.0.1:8500:8500 -p 127.0.0.1:8501:8501 \\
  -v "$PWD/{name}:/models/{name}" -e MODEL_NAME={name} tensorflow/serving
python -m zoo.client --model {name} photo.jpg
```
"""
_ONNX = """\
```python
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
(probabilities,) = session.run(["probabilities"], {{"images": images}})
```
"""
_LITERT = """\
```python
from ai_edge_litert.interpreter import Interpreter

run = Interpreter("model.tflite").get_signature_runner()
probabilities = run(images=images)["probabilities"]
```
"""
_OPENVINO = """\
```python
import openvino

# As it was compared with Keras; new processors would compute in bfloat16.
model = openvino.compile_model("model.xml", "CPU", {{"INFERENCE_PRECISION_HINT": "f32"}})
probabilities = model(images)["probabilities"]
```
"""


@dataclass(frozen=True)
class Format:
    """A format of exports.

    Attributes:
        title: What people call it.
        purpose: What it is for, in a few words.
        use: Markdown for the model card; `{name}` is the model's.
    """

    title: str
    purpose: str
    use: str


SAVED_MODEL = "saved_model"
FORMATS = {
    SAVED_MODEL: Format("SavedModel", "TensorFlow and its server", _SAVED_MODEL),
    "onnx": Format("ONNX model", "ONNX Runtime and others", _ONNX),
    "litert": Format("LiteRT model", "phones and embedded devices", _LITERT),
    "openvino": Format("OpenVINO model", "Intel's processors", _OPENVINO),
}
