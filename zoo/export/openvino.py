"""OpenVINO's intermediate representation, for Intel's processors."""

from pathlib import Path

from zoo.errors import needs_extra
from zoo.export.graph import classifier_graph
from zoo.inference.classifier import Classifier
from zoo.inference.runtimes import import_openvino


def write(classifier: Classifier, folder: Path) -> None:
    """Writes `model.xml` and `model.bin` with the input `images` and the output `probabilities`.

    Raises:
        ImportError: If openvino is not installed.
    """
    with needs_extra("export"):
        openvino = import_openvino()
    model = openvino.convert_model(classifier_graph(classifier.model))
    folder.mkdir(parents=True, exist_ok=True)
    openvino.save_model(model, folder / "model.xml", compress_to_fp16=False)
