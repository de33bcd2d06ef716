"""What stands beside an export for those who use it: a model card and the names of the classes."""

import platform
from importlib.metadata import version
from pathlib import Path

from lambda_keras.applications.preprocessing import MEAN, STD
from lambda_keras.models.specs import STAGES
from zoo.export.saved_model import MAX_MEGAPIXELS, TOP
from zoo.export.servable import Servable
from zoo.export.verify import Report

CARD, LABELS = "model_card.md", "labels.txt"
TITLES = {
    "saved_model": "SavedModel",
    "onnx": "ONNX model",
    "litert": "LiteRT model",
    "openvino": "OpenVINO model",
}
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
_USE = {"saved_model": _SAVED_MODEL, "onnx": _ONNX, "litert": _LITERT, "openvino": _OPENVINO}


def write(
    servable: Servable, folder: Path, format_name: str, quantize: str | None, report: Report
) -> None:
    """Writes `model_card.md` and `labels.txt` beside an export.

    Args:
        servable: What was exported.
        folder: The export.
        format_name: One of `TITLES`.
        quantize: How weights are rounded, or None.
        report: How it answers.
    """
    size = megabytes(folder)
    labels = "".join(f"{name}\n" for name in servable.class_names)
    (folder / LABELS).write_text(labels, encoding="utf-8")
    facts = {
        "Format": f"{TITLES[format_name]}, {quantize or 'float32'}, {size:.1f} MB",
        **servable.origin,
        "Images": f"RGB in [0, 255], {servable.image_size} x {servable.image_size} pixels; the "
        f"model itself normalises them, by the means {MEAN} and deviations {STD} of [0, 1]",
        "Classes": f"{len(servable.class_names):,}, in the order of {LABELS}",
        "Parameters": f"{servable.model.count_params():,}",
        "Written with": ", ".join(
            [
                *(f"{name} {version(name)}" for name in ("lambda_keras", "keras", "tensorflow")),
                f"Python {platform.python_version()}",
            ]
        ),
    }
    parts = [
        f"# {servable.name}",
        _table(("", ""), facts.items()),
        "## Inputs and outputs",
        _signatures(servable, format_name),
        "## Use",
        _USE[format_name].format(name=servable.name).rstrip(),
        "## Compared with Keras",
        _compared(report),
    ]
    (folder / CARD).write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def megabytes(folder: Path) -> float:
    """Returns the size of all files in a folder, in 10^6 bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def _table(head: tuple[str, ...], rows) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _signatures(servable: Servable, format_name: str) -> str:
    size, classes = servable.image_size, len(servable.class_names)
    images = f"`images` float32 (batch, {size}, {size}, 3)"
    probabilities = f"`probabilities` float32 (batch, {classes})"
    rows = [("serving_default", images, probabilities)]
    if format_name != "saved_model":
        return _table(("input", "output"), [row[1:] for row in rows])
    top = min(TOP, classes)
    of_top = ("`classes` int32", "`labels` string", "`scores` float32")
    shapes = {name: servable.model.get_layer(name).output.shape[1:] for name in STAGES}
    maps = (f"`{name}` float32 (batch, {h}, {w}, {c})" for name, (h, w, c) in shapes.items())
    rows += [
        ("images_uint8", images.replace("float32", "uint8"), probabilities),
        (
            "image_bytes",
            f"`image_bytes` string (batch,), JPEG or PNG files of at most {MAX_MEGAPIXELS} "
            "megapixels",
            ", ".join(f"{output} (batch, {top})" for output in of_top),
        ),
        ("features", images, ", ".join(maps)),
    ]
    return (
        _table(("signature", "inputs", "outputs"), rows)
        + "\n\n`image_bytes` sees photographs as stored: an orientation in EXIF is not looked at."
    )


def _compared(report: Report) -> str:
    rows = ((name, f"{value:.1e}") for name, value in report.differences.items())
    text = (
        f"A process without Keras answered about {report.photographs} photographs; the most "
        f"probable class was Keras' for {report.agreement:.1%} of them."
    )
    if report.accuracy is not None:
        text += f" Of these held-out images {report.accuracy:.4f} were classified rightly."
    return f"{text}\n\n{_table(('signature', 'largest difference'), rows)}"
