"""SavedModels for TensorFlow Serving."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier

TITLE = "SavedModel"
FILE = "saved_model.pb"
PURPOSE = "TensorFlow and its server"
PACKAGES = ()
SIGNATURES = ("serving_default", "images", "images_uint8", "image_bytes", "features")
# Unfolded weights in variables round as in Keras.
WAYS = {TITLE: {}, f"{TITLE} with variables": {"fold": False}}
QUANTIZATIONS = ()
OPTIONS = {
    "default_signature": "Requests that name no signature go to `{0}`; `images` has the "
    "probabilities of float32 images.",
    "precision": "It computes in {0}, and has float32 outputs.",
}
USE = """\
In the folder that holds `{name}/`, the first line starts the server, the second sends it an image:

```sh
python -m zoo.serve {name}
python -m zoo.client --model {name} photo.jpg
```

TensorFlow Serving accepts the same requests:

```sh
docker run -p 127.0.0.1:8501:8501 -v "$PWD/{name}:/models/{name}" \\
  -e MODEL_NAME={name} tensorflow/serving
```

`image_bytes` accepts JPEG and PNG files of at most 50 megapixels. They are turned upright by EXIF,
and transparent ones are put on white.
"""
WARM_UP = Path("assets.extra", "tf_serving_warmup_requests")


def write(
    classifier: "Classifier",
    folder: Path,
    fold: bool = True,
    default_signature: str = "images",
    precision: str | None = None,
) -> None:
    """Writes a SavedModel with `SIGNATURES`, a warm-up request for each, and the preprocessing.

    `fold` folds batch normalization into convolutions and projections, with weights as constants;
    else weights are variables, and round as in Keras. `default_signature` is the one that
    `serving_default` equals, `precision` a dtype policy; None: that of the model.
    """
    import keras

    from zoo.export.graph import endpoints
    from zoo.files import write_json
    from zoo.model_card import PREPROCESSING

    archive: Any = keras.export.ExportArchive()
    found = with_default(endpoints(classifier, fold, precision), default_signature)
    for name, (function, signature) in found.items():
        archive.add_endpoint(name, function, [signature])
    archive.write_out(folder, verbose=False)
    _write_warm_up(classifier, folder / WARM_UP, default_signature)
    write_json(folder / PREPROCESSING, asdict(classifier.preprocessing))


class Runtime:
    """TensorFlow, without Keras."""

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf

        self._loaded: Any = tf.saved_model.load(str(folder))

    def signatures(self) -> dict[str, Any]:
        return {
            signature: tuple(
                {
                    name: (spec.dtype.name, [-1 if size is None else size for size in spec.shape])
                    for name, spec in specs.items()
                }
                for specs in (graph.structured_input_signature[1], graph.structured_outputs)
            )
            for signature, graph in self._loaded.signatures.items()
        }

    def run(self, signature: str, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        import tensorflow as tf

        tensors = {name: tf.constant(array) for name, array in inputs.items()}
        outputs = self._loaded.signatures[signature](**tensors)
        found = {name: output.numpy() for name, output in outputs.items()}
        # NumPy saves strings of fixed length without pickle.
        return {name: a.astype("S") if a.dtype == object else a for name, a in found.items()}


def with_default(
    signatures: Mapping[str, Any], default_signature: str = "images"
) -> dict[str, Any]:
    """Renames or copies the row of the default signature to `serving_default`."""
    others = {n: one for n, one in signatures.items() if n != "images" or n != default_signature}
    return {"serving_default": signatures[default_signature], **others}


def example_inputs(files: Sequence[bytes], images: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    """Returns named inputs by signature, from image files and the same images, preprocessed."""
    return {
        "images": {"images": images},
        "images_uint8": {"images": np.round(images).astype("uint8")},
        # NumPy strips trailing zeros of strings; JPEG and PNG files have none.
        "image_bytes": {"image_bytes": np.array(files)},
        "features": {"images": images},
    }


def _write_warm_up(classifier: "Classifier", path: Path, default_signature: str) -> None:
    """Writes the requests with which the server warms up a new version: first calls are slow."""
    import tensorflow as tf

    from zoo.errors import install

    try:
        from tensorflow_serving.apis.predict_pb2 import PredictRequest
        from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog, PredictLog
    except ModuleNotFoundError:
        print(f"no warm-up requests, which need a package: {install('export')}")
        return
    size = classifier.image_size
    grey = np.full((1, size, size, 3), 128, "float32")
    file = tf.io.encode_jpeg(grey[0].astype("uint8")).numpy()
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as records:
        inputs_of = with_default(example_inputs([file], grey), default_signature)
        for signature, inputs in inputs_of.items():
            request = PredictRequest()
            request.model_spec.name = classifier.name
            request.model_spec.signature_name = signature
            for name, array in inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
            log = PredictionLog(predict_log=PredictLog(request=request))
            records.write(log.SerializeToString())
