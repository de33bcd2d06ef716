"""SavedModels for TensorFlow Serving."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.export.base import (
    DEFAULT,
    FEATURES,
    FILES,
    IMAGES,
    INTEGERS,
    Options,
    Signatures,
    Specs,
)

if TYPE_CHECKING:
    from zoo.inference.classifier import Classifier

WARM_UP = Path("assets.extra", "tf_serving_warmup_requests")


class SavedModel:
    """A SavedModel with a warm-up request for each signature, and the preprocessing.

    `Options.fold` folds batch normalization into convolutions and projections, and makes weights
    constants. Otherwise weights are variables, and outputs round as in Keras.
    """

    title, file = "SavedModel", "saved_model.pb"
    purpose = "TensorFlow and its server"
    packages = ()
    extra, frameworks, shared = "serve", ("tensorflow",), True
    ways: Mapping[str, Mapping[str, bool]] = {title: {}, f"{title} with variables": {"fold": False}}
    quantizations: Mapping[str, Sequence[str]] = {}
    options: Mapping[str, str] = {
        "default_signature": "Requests that name no signature go to `{0}`; `images` has the "
        "probabilities of float32 images.",
        "precision": "It computes in {0}, and has float32 outputs.",
    }
    use = """\
In the folder that holds `{name}/`, the first command starts the server, the second sends an image:

```sh
python -m zoo.serve {name}
echo '{{"signature_name": "image_bytes",
  "instances": [{{"b64": "'$(base64 photo.jpg | tr -d '\\n')'"}}]}}' \\
  | curl -d @- http://127.0.0.1:8501/v1/models/{name}:predict
```

TensorFlow Serving accepts the same requests:

```sh
docker run -p 127.0.0.1:8501:8501 -v "$PWD/{name}:/models/{name}" \\
  -e MODEL_NAME={name} tensorflow/serving
```

`image_bytes` accepts JPEG and PNG files of at most 50 megapixels. They are turned upright by EXIF,
and transparent ones are put on white.
"""

    def signatures(self, options: Options) -> dict[str, str]:
        default, others = options.default_signature, (INTEGERS, FILES, FEATURES)
        others = others if default == IMAGES else (IMAGES, *others)
        return {DEFAULT: default, **{name: name for name in others}}

    def write(self, classifier: "Classifier", folder: Path, options: Options) -> None:
        import keras

        from zoo.export.graph import endpoints
        from zoo.files import write_json
        from zoo.model_card import PREPROCESSING

        archive: Any = keras.export.ExportArchive()
        rows, signatures = endpoints(classifier, options), self.signatures(options)
        for name, computed in signatures.items():
            function, spec = rows[computed]
            archive.add_endpoint(name, function, [spec])
        archive.write_out(folder, verbose=False)
        write_warm_up(classifier, folder / WARM_UP, signatures)
        write_json(folder / PREPROCESSING, asdict(classifier.preprocessing))

    def runtime(self, folder: Path, threads: int = 0) -> "Runtime":
        return Runtime(folder)  # TensorFlow has one number of threads per process


class Runtime:
    """TensorFlow, without Keras."""

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf

        self._loaded: Any = tf.saved_model.load(str(folder))

    def signatures(self) -> Signatures:
        return {
            signature: (
                _specs(graph.structured_input_signature[1]),
                _specs(graph.structured_outputs),
            )
            for signature, graph in self._loaded.signatures.items()
        }

    def run(self, signature: str, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        import tensorflow as tf

        tensors = {name: tf.constant(array) for name, array in inputs.items()}
        outputs = self._loaded.signatures[signature](**tensors)
        arrays = {name: output.numpy() for name, output in outputs.items()}
        # NumPy saves strings of fixed length without pickle.
        return {name: a.astype("S") if a.dtype == object else a for name, a in arrays.items()}


def _specs(tensors: Mapping[str, Any]) -> Specs:
    return {
        name: (spec.dtype.name, [-1 if size is None else size for size in spec.shape])
        for name, spec in tensors.items()
    }


def example_inputs(files: Sequence[bytes], images: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    """Returns named inputs by signature, from image files and the same images, preprocessed."""
    return {
        IMAGES: {"images": images},
        INTEGERS: {"images": np.round(images).astype("uint8")},
        # NumPy strips trailing zeros of strings; JPEG and PNG files have none.
        FILES: {"image_bytes": np.array(files)},
        FEATURES: {"images": images},
    }


def write_warm_up(classifier: "Classifier", path: Path, signatures: Mapping[str, str]) -> None:
    """Writes requests that the server runs when it loads a version: first calls are slow."""
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
        examples = example_inputs([file], grey)
        for signature, computed in signatures.items():
            request = PredictRequest()
            request.model_spec.name = classifier.name
            request.model_spec.signature_name = signature
            for name, array in examples[computed].items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
            log = PredictionLog(predict_log=PredictLog(request=request))
            records.write(log.SerializeToString())
