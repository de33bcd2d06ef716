"""The signature for files of a detector, and its comparison, with a detector that finds by rule."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from zoo.detection.export import checks_of, of_files

SCALE = (0.5, 0.25)  # height and width of the resized image, divided by its own


class Finds:
    """A detector of two objects in every image: one by its size, and padding."""

    masks = True
    experiment = SimpleNamespace(task=SimpleNamespace(model=SimpleNamespace(num_classes=4)))

    def name_of(self, category: int) -> str:
        return ("background", "disc", "2", "star")[category]

    def predict(self, images: np.ndarray) -> dict[str, np.ndarray]:
        count, height, width = images.shape[:3]
        box = [0, width * SCALE[1] / 2, height * SCALE[0], width * SCALE[1]]  # the right half
        info = [[0, 0], [0, 0], SCALE, [0, 0]]
        one = {
            "detection_boxes": np.array([box, [0, 0, 0, 0]], "float32"),
            "detection_classes": np.array([3, 1], "int32"),
            "detection_scores": np.array([0.75, 0], "float32"),
            "detection_masks": np.array([[[0.2, 1]], [[0, 0]]], "float32"),
            "image_info": np.array(info, "float32"),
        }
        return {name: np.stack([array] * count) for name, array in one.items()}

    @property
    def module(self):
        def serve(images):
            names = ("boxes", "classes", "scores", "masks")
            size = tf.cast(tf.shape(images)[1:3], tf.float32) * SCALE
            box = tf.stack([0.0, size[1] / 2, size[0], size[1]])
            expected = self.predict(np.zeros((1, 8, 8, 3)))
            found = {f"detection_{name}": expected[f"detection_{name}"] for name in names}
            found["detection_boxes"] = tf.stack([box, tf.zeros(4)])[None]
            return found | {"image_info": expected["image_info"]}

        return SimpleNamespace(serve=serve)


def png(height: int, width: int) -> bytes:
    return bytes(tf.io.encode_png(np.zeros((height, width, 3), "uint8")).numpy())


def test_objects_of_files_of_any_size_have_boxes_in_their_pixels():
    found = of_files(Finds())(image_bytes=tf.constant([png(40, 60), png(20, 30)]))
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
    found = of_files(detector)(image_bytes=tf.constant(files))
    found = {name: value.numpy() for name, value in found.items()}
    assert checks["image_bytes"].difference(found) < 1e-3
    for name in ("boxes", "classes", "scores"):
        other = {**found, name: found[name] + 1}
        assert checks["image_bytes"].difference(other) == pytest.approx(1, abs=1e-3)
