"""ONNX files, for onnxruntime and whatever else reads them."""

from pathlib import Path

from zoo.errors import needs_extra
from zoo.export.graph import classifier_graph
from zoo.inference.classifier import Classifier


def write(classifier: Classifier, folder: Path) -> None:
    """Writes `model.onnx` with the input `images` and the output `probabilities`.

    Raises:
        ImportError: If onnx, onnxruntime or tf2onnx is not installed.
    """
    with needs_extra("export"):
        import onnx
        import onnxruntime  # noqa: F401
        import tf2onnx
    # Not by `keras.Model.export`, whose patch of tf2onnx warns with NumPy 2 and is not needed.
    function = classifier_graph(classifier.model)
    model, _ = tf2onnx.convert.from_function(function, function.input_signature)
    for tensor in (*model.graph.input, *model.graph.output):
        tensor.type.tensor_type.shape.dim[0].dim_param = "batch"
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
