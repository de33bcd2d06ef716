"""Exports a detector to serve: `python -m zoo.export --run FOLDER`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from zoo import model_card
from zoo.cli.settings import AnyPath, OutputFolder, Settings
from zoo.errors import printable
from zoo.files import next_version

if TYPE_CHECKING:
    from zoo.detection.detector import Detector, Metrics

SNIPPET = """\
For an image file, in the folder of this card; it needs TensorFlow alone:

```python
from pathlib import Path

import tensorflow as tf

detector = tf.saved_model.load(".")
labels = Path("labels.txt").read_text("utf-8").splitlines()
names = dict(label.split(": ", 1) for label in labels)
image = tf.io.decode_image(tf.io.read_file("photo.jpg"), 3, expand_animations=False)
found = detector.signatures["images_uint8"](inputs=image[None])
boxes = found["detection_boxes"][0] / tf.tile(found["image_info"][0, 2], [2])  # in pixels
for box, number, score in zip(
    boxes, found["detection_classes"][0], found["detection_scores"][0], strict=True
):
    if score >= 0.5:
        top, left, bottom, right = box.numpy().round().astype(int)
        print(f"{score:.0%} {names[str(int(number))]}: {left}, {top} to {right}, {bottom}")
```
"""
SIGNATURES = {"image_bytes": "serving_default", "image_tensor": "images_uint8"}
MAX_DIFFERENCE = 1e-3  # pixels, or of a score


class ExportConfig(Settings, cli_prog_name="python -m zoo.export"):
    """Exports a detector as a SavedModel for TensorFlow Serving.

    It is written to OUTPUT/detector_BACKBONE/1, the next time to 2, and so on, beside a
    model_card.md with inputs and outputs. A new process with TensorFlow alone has to give the
    outputs of the detector for images, else the export is removed. Example:

      python -m zoo.export --run runs/shapes --output runs/exports
    """

    config: AnyPath | None = Field(
        default=None, exclude=True, description="YAML file with these settings."
    )
    run: AnyPath = Field(description="Folder of a finished run, local or gs://.")
    output: OutputFolder = Field(default=Path("exports"), description="Folder of all exports.")


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then exports."""
    run(ExportConfig.from_command_line(arguments))


def run(config: ExportConfig) -> Path:
    """Exports the detector of a run.

    Returns:
        The new folder.

    Raises:
        ValueError: If there is no such run, or the export answers otherwise than the detector.
    """
    from zoo.detection.detector import Detector, load_metrics

    metrics = load_metrics(config.run)
    detector = Detector.from_run(config.run)
    name = f"detector_{detector.name}"
    with next_version(config.output / name) as (folder, beside):
        beside.mkdir()
        print(f"writing {name} as a SavedModel", flush=True)
        write(detector, beside)
        print("comparing it with the detector on images", flush=True)
        differences = compare(detector, beside)
        for signature, difference in differences.items():
            print(f"  {signature}: largest difference from the detector {difference:.1e}")
        if max(differences.values()) > MAX_DIFFERENCE:
            raise ValueError("the export differs from the detector; it was removed")
        _write_card(detector, metrics, differences, beside)
    print(f"exported to {printable(folder)}, {model_card.megabytes(folder):.1f} MB")
    return folder


def write(detector: "Detector", folder: Path) -> None:
    """Writes a SavedModel with the Model Garden's two signatures.

    | signature | input |
    | --- | --- |
    | serving_default | inputs: JPEG or PNG files, (batch,), all of one size in pixels |
    | images_uint8 | inputs: uint8, (batch, height, width, 3), RGB |

    Outputs are those of `Detector.ask`.
    """
    import tensorflow as tf

    signatures = detector.module.get_inference_signatures(dict(SIGNATURES))
    # Not the module itself: of its model tf_keras would write the training, too, and fails on it.
    root: Any = tf.Module()
    root.used = [list(signature.graph.variables) for signature in signatures.values()]
    tf.saved_model.save(root, str(folder), signatures=signatures)


def compare(detector: "Detector", folder: Path) -> dict[str, float]:
    """Returns the largest difference of an export from the detector on two images, by signature.

    Raises:
        ValueError: If the export does not work with TensorFlow alone.
    """
    import numpy as np
    import tensorflow as tf
    from sklearn.datasets import load_sample_images

    from zoo.export.runtimes import run as run_export

    images = np.stack(load_sample_images().images)
    files = [bytes(tf.io.encode_png(image).numpy()) for image in images]
    expected = detector.ask(images)
    answers = run_export(
        "saved_model",
        folder,
        # PNG files end with no zeros, which NumPy would cut off.
        {"serving_default": {"inputs": np.array(files)}, "images_uint8": {"inputs": images}},
    )
    return {signature: _largest(got, expected) for signature, got in answers.items()}


def _largest(got: Mapping[str, Any], expected: Mapping[str, Any]) -> float:
    import numpy as np

    if got.keys() != expected.keys() or any(got[k].shape != expected[k].shape for k in got):
        return np.inf
    differences = (np.abs(got[k].astype("float64") - expected[k]).max(initial=0) for k in got)
    return float(max(differences))


def _write_card(
    detector: "Detector", metrics: "Metrics", differences: Mapping[str, float], folder: Path
) -> None:
    averages = {"Box AP": metrics.test.box.AP}
    if metrics.test.mask is not None:
        averages["Mask AP"] = metrics.test.mask.AP
    categories = "\n".join(f"{number}: {name}" for number, name in detector.categories.items())
    (folder / "labels.txt").write_text(categories + "\n", encoding="utf-8")
    facts = {
        "Detector": f"{detector.title}, of TensorFlow's Model Garden",
        "Images": f"resized to fit {detector.image_size} x {detector.image_size} pixels",
        "Trained on": f"{metrics.training_images:,} images",
        **{
            name: f"{average} ({metrics.test_images:,} test images)"
            for name, average in averages.items()
        },
        "Difference from the detector": ", ".join(
            f"{name} {difference:.1e}" for name, difference in differences.items()
        ),
    }
    signatures = model_card.table(
        ("signature", "input"),
        (
            ("`serving_default`", "`inputs`: JPEG or PNG files of one size, `(batch,)`, strings"),
            ("`images_uint8`", "`inputs`: RGB, `(batch, height, width, 3)`, uint8"),
        ),
    )
    outputs = model_card.table(
        ("output", "what it is"),
        (
            (
                "`detection_boxes`",
                "`(batch, 100, 4)`: top, left, bottom, right, in pixels of the resized image, "
                "within it: divided by `image_info[:, 2]` in those of the image",
            ),
            ("`detection_classes`", "`(batch, 100)`: ids of the categories in labels.txt"),
            ("`detection_scores`", "`(batch, 100)`, from 0 to 1, the highest first"),
            *[("`detection_masks`", "`(batch, 100, 28, 28)`, from 0 to 1, over the box")]
            * detector.masks,
            ("`num_detections`", "`(batch,)`: so many of the hundred are objects"),
            ("`image_info`", "`(batch, 4, 2)`: size, size with padding, scale, offset"),
        ),
    )
    sections = {"Inputs": signatures, "Outputs": outputs, "Use": SNIPPET}
    model_card.write(folder / "model_card.md", detector.title, facts, sections)
