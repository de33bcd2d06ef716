"""The signature for files of a detector, and its comparison, with a detector that finds by rule."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from zoo.detection.export import build_files_signature, checks_of

SCALE = (0.5, 0.25)  # height and width of the resized image, divided by its own


class Finds:
    """A detector of two objects in every image: one by its size, and padding."""

    masks = True
    experiment = SimpleNamespace(task=SimpleNamespace(model=SimpleNamespace(num_classes=4)))
    module = property(lambda self: self)

    def name_of(self, category: int) -> str:
        return ("background", "disc", "2", "star")[category]

    def serve(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        height, width = tf.unstack(tf.cast(tf.shape(images)[1:3], tf.float32) * SCALE)
        one = {
            "detection_boxes": [[0.0, width / 2, height, width], [0.0] * 4],  # the right half
            "detection_classes": [3, 1],
            "detection_scores": [0.75, 0.0],
            "detection_masks": [[[0.2, 1.0]], [[0.0, 0.0]]],
            "image_info": [[0.0, 0.0], [0.0, 0.0], SCALE, [0.0, 0.0]],
        }
        return {name: tf.stack([array] * images.shape[0]) for name, array in one.items()}

    def predict(self, images: np.ndarray) -> dict[str, np.ndarray]:
        return {name: array.numpy() for name, array in self.serve(tf.constant(images)).items()}


def test_objects_of_files_of_any_size_have_boxes_in_their_pixels():
    images = [np.zeros((*size, 3), "uint8") for size in ((40, 60), (20, 30))]
    found = build_files_signature(Finds())(image_bytes=tf.stack([*map(tf.io.encode_png, images)]))
    found = {name: value.numpy() for name, value in found.items()}
    boxes = [[[30, 0, 30, 40], [0] * 4], [[15, 0, 15, 20], [0] * 4]]  # left, top, width, height
    np.testing.assert_allclose(found["boxes"], boxes)
    assert found["classes"].tolist() == [[3, 1]] * 2
    assert found["labels"].tolist() == [[b"star", b"disc"]] * 2
    np.testing.assert_allclose(found["scores"], [[0.75, 0]] * 2)
    assert found["masks"][0].tolist() == [[[51, 255]], [[0, 0]]]
    assert found["sizes"].tolist() == [[40, 60], [20, 30]]


def test_the_comparison_is_with_the_outputs_of_the_detector():
    detector = Finds()
    checks = checks_of(detector)
    assert checks.keys() == {"serving_default", "images_uint8", "image_bytes"}
    images = checks["images_uint8"].inputs["inputs"]
    files = checks["image_bytes"].inputs["image_bytes"]
    np.testing.assert_array_equal(checks["serving_default"].inputs["inputs"], files)
    for file, image in zip(files, images, strict=True):
        np.testing.assert_array_equal(tf.io.decode_png(file), image)
    outputs = detector.predict(images)
    for name in ("serving_default", "images_uint8"):
        assert checks[name].difference(outputs) == 0
        other = {**outputs, "detection_scores": outputs["detection_scores"] + 0.5}
        assert checks[name].difference(other) == 0.5
    found = build_files_signature(detector)(image_bytes=tf.constant(files))
    found = {name: value.numpy() for name, value in found.items()}
    assert checks["image_bytes"].difference(found) < 1e-3
    for name in ("boxes", "classes", "scores"):
        other = {**found, name: found[name] + 1}
        assert checks["image_bytes"].difference(other) == pytest.approx(1, abs=1e-3)
