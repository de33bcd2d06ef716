"""Exports a detector for serving: `python -m zoo.export --run FOLDER`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo import model_card
from zoo.cli.model_options import PlaceOptions
from zoo.cli.settings import OutputFolder
from zoo.errors import printable
from zoo.export import saved_model
from zoo.files import next_version

if TYPE_CHECKING:
    from zoo.detection.detector import Detector

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
OF_FILES = "image_bytes"
MAX_DIFFERENCE = 1e-3  # in pixels, or in units of scores


class ExportConfig(PlaceOptions, cli_prog_name="python -m zoo.export"):
    """Exports a detector as a SavedModel for TensorFlow Serving.

    Pass --run for the detector of a finished run, or --model for one of zoo.publish. It is written
    to OUTPUT/detector_BACKBONE/1, the next time to 2, and so on, next to a model_card.md with
    inputs and outputs. A new process with TensorFlow alone has to reproduce the outputs of the
    detector for images, else the export is removed. Example:

      python -m zoo.export --run runs/shapes --output runs/exports
    """

    output: OutputFolder = Path("exports")
    """Folder of all exports."""


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then exports."""
    run(ExportConfig.from_command_line(arguments))


def run(config: ExportConfig) -> Path:
    """Exports a detector.

    Returns:
        The new folder.

    Raises:
        ValueError: If there is no such detector, or the outputs of the export differ.
    """
    from zoo.detection.source import choose

    source = choose(config)
    detector, origin = source.load(), source.card()
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
        _write_card(detector, origin, differences, beside)
    print(f"exported to {printable(folder)}, {model_card.megabytes(folder):.1f} MB")
    return folder


def write(detector: "Detector", folder: Path) -> None:
    """Writes a SavedModel with the Model Garden's two signatures, and one for `zoo.client`.

    | signature | input |
    | --- | --- |
    | serving_default | inputs: JPEG or PNG files, (batch,), all of the same size in pixels |
    | images_uint8 | inputs: uint8, (batch, height, width, 3), RGB |
    | image_bytes | image_bytes: JPEG or PNG files, (batch,), of any sizes |

    The first two have the outputs of `Detector.predict`.
    """
    import tensorflow as tf

    signatures = dict(detector.module.get_inference_signatures(dict(SIGNATURES)))
    signatures[OF_FILES] = _of_files(detector)
    # Saving the module itself fails: tf_keras would also write the training graph of its model.
    root: Any = tf.Module()
    root.used = [list(signature.graph.variables) for signature in signatures.values()]
    tf.saved_model.save(root, str(folder), signatures=signatures)


def _of_files(detector: "Detector") -> Any:
    """Returns a function from image files to objects, with boxes in pixels of each image."""
    import tensorflow as tf

    from zoo.data.crops import decode
    from zoo.export.graph import refuse_unfit

    labels = tf.constant([detector.name_of(number) for number in range(detector.outputs)])

    def find(encoded: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.control_dependencies([refuse_unfit(encoded)]):
            image: Any = decode(tf.identity(encoded))
        found = {name: value[0] for name, value in detector.module.serve(image[None]).items()}
        boxes = found["detection_boxes"] / tf.tile(found["image_info"][2:3], [1, 2])
        top, left, bottom, right = tf.unstack(boxes, axis=-1)
        outputs = {
            "boxes": tf.stack([left, top, right - left, bottom - top], -1),  # (100, 4)
            "classes": found["detection_classes"],
            "labels": tf.gather(labels, found["detection_classes"]),
            "scores": found["detection_scores"],
        }
        if detector.masks:
            outputs["masks"] = tf.cast(tf.round(255 * found["detection_masks"]), tf.uint8)
            outputs["sizes"] = tf.shape(image)[:2]
        return outputs

    dtypes = {"boxes": tf.float32, "classes": tf.int32, "labels": tf.string, "scores": tf.float32}
    if detector.masks:
        dtypes |= {"masks": tf.uint8, "sizes": tf.int32}

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, OF_FILES)], autograph=False)
    def of_files(image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        return tf.map_fn(find, image_bytes, fn_output_signature=dtypes)

    return of_files.get_concrete_function()


def compare(detector: "Detector", folder: Path) -> dict[str, float]:
    """Compares an export with the detector on two images: largest difference by signature.

    Raises:
        ValueError: If the export does not work with TensorFlow alone.
    """
    import numpy as np
    import tensorflow as tf
    from sklearn.datasets import load_sample_images

    from zoo.export.runtimes import run as run_export

    images = np.stack(load_sample_images().images)
    # NumPy strips trailing zeros of strings; PNG files have none.
    files = np.array([bytes(tf.io.encode_png(image).numpy()) for image in images])
    inputs = {
        "serving_default": {"inputs": files},
        "images_uint8": {"inputs": images},
        OF_FILES: {OF_FILES: files},
    }
    found = run_export("saved_model", folder, inputs)
    expected = detector.predict(images)
    scale = np.tile(expected["image_info"][:, 2:3], (1, 1, 2))
    top, left, bottom, right = np.moveaxis(expected["detection_boxes"] / scale, -1, 0)
    of_files = {
        "boxes": np.stack([left, top, right - left, bottom - top], -1),
        "classes": expected["detection_classes"],
        "scores": expected["detection_scores"],
    }
    return {
        signature: _largest(
            {name: got[name] for name in of_files} if signature == OF_FILES else got,
            of_files if signature == OF_FILES else expected,
        )
        for signature, got in found.items()
    }


def _largest(got: Mapping[str, Any], expected: Mapping[str, Any]) -> float:
    import numpy as np

    if got.keys() != expected.keys() or any(got[k].shape != expected[k].shape for k in got):
        return np.inf
    differences = (np.abs(got[k].astype("float64") - expected[k]).max(initial=0) for k in got)
    return float(max(differences))


def _write_card(
    detector: "Detector",
    origin: Mapping[str, str],
    differences: Mapping[str, float],
    folder: Path,
) -> None:
    from zoo.detection.source import detector_fields

    model_card.write_labels(folder, detector.labels())
    fields = {
        **detector_fields(detector),
        **origin,
        "Difference from the detector": ", ".join(
            f"{name} {difference:.1e}" for name, difference in differences.items()
        ),
    }
    signatures = model_card.table(
        ("signature", "input"),
        (
            ("`serving_default`", "`inputs`: JPEG or PNG files of one size, `(batch,)`, strings"),
            ("`images_uint8`", "`inputs`: RGB, `(batch, height, width, 3)`, uint8"),
            ("`image_bytes`", "`image_bytes`: JPEG or PNG files, `(batch,)`, for `zoo.client`"),
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
    of_files = "Those of `image_bytes` are `boxes` (left, top, width, height, in pixels of the "
    of_files += "image), `classes`, `labels` and `scores`"
    if detector.masks:
        of_files += ", and `masks`, from 0 to 255, with the `sizes` of the images"
    sections = {
        "Inputs": signatures,
        "Outputs": f"{outputs}\n\n{of_files}.",
        "Use": f"{SNIPPET}\n" + saved_model.USE.format(name=f"detector_{detector.name}"),
    }
    model_card.write(folder / "model_card.md", detector.title, fields, sections)
