"""Table of export formats. Each format is a module of this package.

| name | meaning |
| --- | --- |
| `TITLE` | Name of the format in cards and on the screen. |
| `FILE` | A file that all exports of the format have. |
| `PURPOSE` | Its use, in a few words. |
| `PACKAGES` | Modules that writing or running it imports. |
| `SIGNATURES` | Signatures that it may have: `zoo.export.graph.endpoints`, lambda maps. |
| `WAYS` | Keyword arguments of `write` by title, tried in turn until outputs equal Keras'. |
| `QUANTIZATIONS` | Values of `--quantize`, which `write` then accepts. |
| `OPTIONS` | Settings of the command that are arguments of `write`, with a sentence for the card. |
| `USE` | Markdown for the model card; `{name}` is the model's. |
| `write(classifier, folder)` | Writes a classifier to a new or empty folder. |
| `Runtime(folder)` | Runs the export: `run(signature, inputs)`; `signatures()` has their specs. |

At module level, a format imports the standard library and NumPy only: its file is also loaded by
itself, in a process without this project (`zoo.export.runtimes`).
"""

import importlib
from types import ModuleType

from zoo.errors import needs_extra
from zoo.export import litert, onnx, openvino, saved_model

SAVED_MODEL = "saved_model"
LAMBDA_MAPS = "lambda_maps"  # signature of exports that have these outputs, too
FORMATS: dict[str, ModuleType] = {
    SAVED_MODEL: saved_model,
    "onnx": onnx,
    "litert": litert,
    "openvino": openvino,
}


def check_packages(format_name: str) -> None:
    """Imports the packages of a format."""
    with needs_extra("export"):
        for name in FORMATS[format_name].PACKAGES:
            importlib.import_module(name)
