"""Exports a detector for serving: `python -m zoo.export --run FOLDER`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from zoo.config.model_options import PlaceOptions
from zoo.errors import require
from zoo.export.base import DEFAULT, FILES, INTEGERS
from zoo.export.formats import FORMATS, SAVED_MODEL
from zoo.fields import AnyOutputFolder, checked_by

if TYPE_CHECKING:
    from zoo.detection.detector import Detector
    from zoo.export.exporter import Check

SIGNATURES = {"image_bytes": DEFAULT, "image_tensor": INTEGERS}  # of the Model Garden, renamed
MAX_DIFFERENCE = 1e-3  # in pixels, or in units of scores


def _in_float32(quantize: str) -> None:
    expected = "expected none: detectors are exported in float32 alone, as SavedModels"
    require(quantize == "none", expected, repr(quantize))


class ExportConfig(PlaceOptions):
    """Exports a detector as a SavedModel for TensorFlow Serving.

    Pass --run for the detector of a finished run, or --model for a published one. It is written
    to OUTPUT/detector_BACKBONE/1, the next time to 2, and so on, next to a model_card.md with
    inputs and outputs. A new process with TensorFlow alone has to reproduce the outputs of the
    detector for images, else the export is removed. Example:

      python -m zoo.export --run runs/shapes --output runs/exports
    """

    quantize: Annotated[str, checked_by(_in_float32)] = "none"
    """none; int8 is for classifiers."""
    output: AnyOutputFolder = Path("exports")
    """Folder of all exports, local or gs://."""


def run(config: ExportConfig) -> Path:
    """Exports a detector; returns the new folder."""
    from zoo.detection.detector import choose, detector_fields
    from zoo.export.exporter import Export

    source = choose(config)
    detector = source.load()
    name, form = f"detector_{detector.name}", FORMATS[SAVED_MODEL]
    text = Path(__file__).with_name("card.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if detector.masks or "mask" not in line]
    exported = Export(
        title=detector.title,
        labels=detector.labels(),
        fields={"Task": "detection", **detector_fields(detector), **source.card()},
        use="\n".join([*lines, "", form.use.format(name=name)]),
        format_name=SAVED_MODEL,
        writers={form.title: partial(write, detector)},
        checks=checks_of(detector),
        allowed=MAX_DIFFERENCE,
    )
    return exported.to(config.output / name)


def write(detector: "Detector", folder: Path) -> None:
    """Writes a SavedModel with the Model Garden's two signatures, and one for image files."""
    import tensorflow as tf

    signatures = dict(detector.module.get_inference_signatures(dict(SIGNATURES)))
    signatures[FILES] = build_files_signature(detector)
    # Saving the module itself fails: tf_keras would also write the training graph of its model.
    root: Any = tf.Module()
    root.used = [list(signature.graph.variables) for signature in signatures.values()]
    tf.saved_model.save(root, str(folder), signatures=signatures)


def build_files_signature(detector: "Detector") -> Any:
    """Returns a function from image files to objects, with boxes in pixels of each image."""
    import tensorflow as tf

    from zoo.data.crops import decode
    from zoo.export.graph import map_files

    outputs = detector.experiment.task.model.num_classes  # category ids, and 0 for the background
    labels = tf.constant([detector.name_of(number) for number in range(outputs)])

    def find(encoded: tf.Tensor) -> dict[str, tf.Tensor]:
        image: Any = decode(encoded)
        detections = {name: value[0] for name, value in detector.module.serve(image[None]).items()}
        boxes = detections["detection_boxes"] / tf.tile(detections["image_info"][2:3], [1, 2])
        top, left, bottom, right = tf.unstack(boxes, axis=-1)
        outputs = {
            "boxes": tf.stack([left, top, right - left, bottom - top], -1),  # (n, 4)
            "classes": detections["detection_classes"],
            "labels": tf.gather(labels, detections["detection_classes"]),
            "scores": detections["detection_scores"],
        }
        if detector.masks:
            outputs["masks"] = tf.cast(tf.round(255 * detections["detection_masks"]), tf.uint8)
            outputs["sizes"] = tf.shape(image)[:2]
        return outputs

    dtypes = {"boxes": tf.float32, "classes": tf.int32, "labels": tf.string, "scores": tf.float32}
    if detector.masks:
        dtypes |= {"masks": tf.uint8, "sizes": tf.int32}

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, FILES)], autograph=False)
    def detect_files(image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        return map_files(find, image_bytes, dtypes)

    return detect_files.get_concrete_function()


def checks_of(detector: "Detector") -> dict[str, "Check"]:
    """Returns the comparison of each signature on two images."""
    import numpy as np
    import tensorflow as tf
    from sklearn.datasets import load_sample_images

    from zoo.export.exporter import Check, largest_difference

    images = np.stack(load_sample_images().images)
    # NumPy strips trailing zeros of strings; PNG files have none.
    files = np.array([bytes(tf.io.encode_png(image).numpy()) for image in images])
    expected = detector.predict(images)
    scale = np.tile(expected["image_info"][:, 2:3], (1, 1, 2))
    top, left, bottom, right = np.moveaxis(expected["detection_boxes"] / scale, -1, 0)
    expected_for_files = {
        "boxes": np.stack([left, top, right - left, bottom - top], -1),
        "classes": expected["detection_classes"],
        "scores": expected["detection_scores"],
    }
    return {
        DEFAULT: Check({"inputs": files}, partial(largest_difference, expected)),
        INTEGERS: Check({"inputs": images}, partial(largest_difference, expected)),
        FILES: Check({FILES: files}, partial(largest_difference, expected_for_files)),
    }
