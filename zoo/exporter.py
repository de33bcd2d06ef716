"""Writing SavedModels, and proving that they answer as the Keras model does."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

from lambda_keras.applications import preprocess_input
from zoo import run_folder, verify_export
from zoo.data import load_data
from zoo.files import replacing
from zoo.inference import predict
from zoo.registry import create_model, find_model

MAX_DIFFERENCE = 1e-5  # between probabilities
MAX_IMAGES = 512  # held-out images that both are asked about; they have to fit into memory
RANDOM_IMAGES = 4  # the same where there are no held-out images


def export_run(run: Path, output: Path) -> Path:
    """Exports the model of a finished run and prints its accuracy on held-out images.

    Args:
        run: Folder of the run.
        output: Folder of all exports.

    Returns:
        The new folder `output/MODEL/VERSION`.

    Raises:
        ValueError: If there is no finished run, or the export answers differently.
    """
    config = run_folder.load_config(run)
    model: Any = keras.models.load_model(run / run_folder.MODEL)
    images, labels = load_data(config.data, config.model.size).test.sample(MAX_IMAGES)
    folder, accuracy = _export(model, config.model.name, output, images, labels)
    print(f"exported to {folder}")
    print(
        f"test accuracy {accuracy:.4f} ({len(images)} held-out images, exported SavedModel)",
        flush=True,
    )
    return folder


def export_weights(
    name: str, weights: Path, classes: int, image_size: int | None, output: Path
) -> Path:
    """Exports a model with weights from a file, compared on random images.

    Args:
        name: One of `zoo.registry.list_models()`.
        weights: Its `.weights.h5` file.
        classes: Number of classes of the weights.
        image_size: Height and width in pixels; None: the model's own.
        output: Folder of all exports.

    Returns:
        The new folder `output/name/VERSION`.

    Raises:
        ValueError: If the weights do not fit the model, or the export answers differently.
    """
    size = image_size or find_model(name).image_size
    model = create_model(name, classes=classes, input_shape=(size, size, 3), weights=weights)
    shape = (RANDOM_IMAGES, size, size, 3)
    images = np.random.default_rng(0).integers(0, 256, shape).astype("float32")
    folder, _ = _export(model, name, output, images, np.zeros(len(images), int))
    print(f"exported to {folder}")
    return folder


def _export(
    model: keras.Model, name: str, output: Path, images: np.ndarray, labels: np.ndarray
) -> tuple[Path, float]:
    """Writes and verifies the next version; returns its folder and its accuracy."""
    folder = _next_version(output / name)
    with replacing(folder) as beside:
        write_saved_model(model, beside)
        expected = predict(model, images)
        result = verify(beside, images, labels, expected)
        if not result["max_difference"] <= MAX_DIFFERENCE:
            raise ValueError(
                f"the SavedModel differs from Keras by {result['max_difference']:.1e}, "
                f"more than {MAX_DIFFERENCE:.0e}; the export was removed"
            )
    print(f"SavedModel and Keras agree to {result['max_difference']:.1e} on {len(images)} images")
    return folder, result["accuracy"]


def write_saved_model(model: keras.Model, folder: Path) -> None:
    """Writes a SavedModel that takes `images` in [0, 255] and returns `probabilities`.

    Args:
        model: Classifier of images that went through `preprocess_input`.
        folder: New folder.
    """

    def serve(images):
        return {"probabilities": model(preprocess_input(images), training=False)}

    archive: Any = keras.export.ExportArchive()
    archive.track(model)
    signature = keras.InputSpec(shape=model.input_shape, dtype="float32", name="images")
    archive.add_endpoint("serve", serve, input_signature=[signature])
    archive.write_out(folder, verbose=False)


def verify(
    folder: Path, images: np.ndarray, labels: np.ndarray, expected: np.ndarray
) -> dict[str, float]:
    """Asks the SavedModel in a new process that has only TensorFlow and NumPy.

    Returns:
        `max_difference` from the expected probabilities, and `accuracy`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        questions = Path(scratch) / "questions.npz"
        np.savez(questions, images=images, labels=labels, expected=expected)
        script = str(verify_export.__file__)
        # -P: the script's folder is not searched for modules, so none of ours can slip in.
        process = subprocess.run(
            [sys.executable, "-P", script, str(folder), str(questions)],
            capture_output=True,
            text=True,
        )
    if process.returncode:
        raise ValueError(f"the SavedModel cannot be used without Keras: {process.stderr.strip()}")
    return json.loads(process.stdout.splitlines()[-1])


def _next_version(folder: Path) -> Path:
    versions = [int(p.name) for p in folder.glob("[0-9]*") if p.name.isdigit()]
    return folder / str(max(versions, default=0) + 1)
