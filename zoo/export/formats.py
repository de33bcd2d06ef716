# pyright: strict
"""The table of export formats."""

import importlib

from zoo.errors import needs_extra
from zoo.export.base import Format
from zoo.export.litert import LiteRT
from zoo.export.onnx import Onnx
from zoo.export.openvino import OpenVINO
from zoo.export.saved_model import SavedModel

SAVED_MODEL = "saved_model"
FORMATS: dict[str, Format] = {
    SAVED_MODEL: SavedModel(),
    "onnx": Onnx(),
    "litert": LiteRT(),
    "openvino": OpenVINO(),
}


def check_packages(format_name: str, quantize: str = "none") -> None:
    """Imports the packages of a format, and of its quantization."""
    form = FORMATS[format_name]
    with needs_extra("export"):
        for name in (*form.packages, *form.quantizations.get(quantize, ())):
            importlib.import_module(name)
