"""Asks an exported model, in a process that has only the runtime of its format and NumPy.

`python -P runtimes.py FORMAT FOLDER QUESTIONS ANSWERS`: QUESTIONS is a folder with a file
`SIGNATURE.npz` of named inputs for each signature to ask; ANSWERS is the folder to which the
named outputs are written alike. Nothing of this project is imported here.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

BATCH_SIZE = 32
# Modules of which every import fails, and of TensorFlow too, but for a SavedModel. TensorFlow
# imports Keras wherever it is installed.
FORBIDDEN = ("keras", "tf_keras", "lambda_keras", "zoo")
Arrays = Mapping[str, np.ndarray]


class SavedModel:
    """TensorFlow, without Keras."""

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf

        self._loaded: Any = tf.saved_model.load(str(folder))

    def answer(self, signature: str, arrays: Arrays) -> Arrays:
        """Returns the named outputs of a signature for a batch of named inputs."""
        import tensorflow as tf

        inputs = {name: tf.constant(array) for name, array in arrays.items()}
        outputs = self._loaded.signatures[signature](**inputs)
        found = {name: output.numpy() for name, output in outputs.items()}
        # Strings as NumPy writes them without pickle.
        return {name: a.astype("S") if a.dtype == object else a for name, a in found.items()}


class Onnx:
    """onnxruntime on the CPU, with so many threads; 0: as many as there are cores."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(
            folder / "model.onnx", options, providers=["CPUExecutionProvider"]
        )

    def answer(self, signature: str, arrays: Arrays) -> Arrays:
        """See `SavedModel`; there is one signature."""
        names = [output.name for output in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, dict(arrays)), strict=True))


class OpenVino:
    """openvino on the CPU, with so many threads; 0: as many as there are cores."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        openvino = import_openvino()
        # On the latest processors it would compute in bfloat16.
        settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
        model = openvino.Core().read_model(folder / "model.xml")
        self._model = openvino.compile_model(model, "CPU", settings)

    def answer(self, signature: str, arrays: Arrays) -> Arrays:
        """See `SavedModel`; there is one signature."""
        outputs = self._model(dict(arrays))
        return {output.any_name: outputs[output] for output in self._model.outputs}


def import_openvino() -> Any:
    """Returns the module, without the one by which it reports over the network how it is used."""
    sys.modules.setdefault("openvino_telemetry", None)  # pyright: ignore[reportArgumentType]
    import openvino

    return openvino


class LiteRT:
    """ai-edge-litert, with so many threads; 0: one."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter = Interpreter(str(folder / "model.tflite"), num_threads=threads or None)

    def answer(self, signature: str, arrays: Arrays) -> Arrays:
        """See `SavedModel`."""
        return self._interpreter.get_signature_runner(signature)(**arrays)


RUNTIMES: Mapping[str, Any] = {
    "saved_model": SavedModel,
    "onnx": Onnx,
    "openvino": OpenVino,
    "litert": LiteRT,
}


def main(format_name: str, folder: str, questions: str, answers: str) -> None:
    """Answers every question, in batches."""
    forbidden = FORBIDDEN if format_name == "saved_model" else (*FORBIDDEN, "tensorflow")
    for name in forbidden:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    runtime = RUNTIMES[format_name](Path(folder))
    for path in sorted(Path(questions).glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            inputs = dict(file)
        np.savez(Path(answers) / path.name, **_in_batches(runtime, path.stem, inputs))
    imported = [name for name in forbidden if sys.modules.get(name) is not None]
    if imported:
        sys.exit(f"expected a process without {', '.join(forbidden)}. Received: {imported}")


def _in_batches(runtime: Any, signature: str, inputs: Arrays) -> dict[str, Any]:
    count = len(next(iter(inputs.values())))
    parts = [
        runtime.answer(
            signature, {name: array[i : i + BATCH_SIZE] for name, array in inputs.items()}
        )
        for i in range(0, count, BATCH_SIZE)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


if __name__ == "__main__":
    main(*sys.argv[1:])
