"""From the outputs of the Model Garden to COCO's format of results."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from pycocotools.mask import decode

from zoo.detection import detector, experiment
from zoo.detection.config import DetectionConfig
from zoo.detection.detector import Detector, average_precision
from zoo.detection.shards import Labels

HEIGHT, WIDTH = 40, 80
SCALES = 0.5, 0.25  # of rows and columns
# In pixels of the resized image: top, left, bottom, right; the third one was in the padding.
BOXES = [[2, 2, 12, 12], [10, 0, 20, 5], [20, 2, 20, 5], [0, 0, 0, 0]]
SCORES = [0.9, 0.8, 0.7, 0]
SIZES = {"3": 4, "4": 2}  # of the levels
ONE = Detector("a", None, None, Labels(categories={1: "disc"}))  # of which no model is asked


def outputs():
    info = [[HEIGHT, WIDTH], [64, 64], SCALES, [0, 0]]
    masks = np.zeros((1, 4, 28, 28), "float32")
    masks[:, :, :, :14] = 1  # the left half of every box
    return {
        "detection_boxes": np.array([BOXES], "float32"),
        "detection_classes": np.array([[3, 1, 1, 0]]),
        "detection_scores": np.array([SCORES], "float32"),
        "detection_masks": masks,
        "image_info": np.array([info], "float32"),
    }


@pytest.mark.parametrize("threshold", [2, -1, -1e-9, float("nan"), float("inf"), "0.5", None])
def test_thresholds_are_scores(threshold):
    with pytest.raises(ValueError, match=r"threshold: expected a score from 0 to 1\. Received: "):
        ONE("nowhere.jpg", threshold)


def test_objects_have_the_ids_of_the_annotations():
    class Finds(Detector):
        def detect(self, *_):
            return experiment.to_coco(outputs(), [1])

    detector = Finds("a", None, None, Labels(categories={1: "b", 3: "a"}, file_ids={3: 0}))
    image = np.zeros((HEIGHT, WIDTH, 3), "uint8")
    named = [(one["name"], one["category_id"]) for one in detector(image, 0)]
    assert named == [("a", 0), ("b", 1)]
    at_least = {threshold: len(detector(image, threshold)) for threshold in (0.8, 0.81, 0.91)}
    assert at_least == {0.8: 2, 0.81: 1, 0.91: 0}
    assert len(detector([image, image])) == 2


def test_boxes_and_masks_are_those_of_the_image():
    found = experiment.to_coco(outputs(), np.array([7]))
    assert json.loads(json.dumps(found)) == found  # plain numbers
    assert [one["bbox"] for one in found] == [[8, 4, 40, 20], [0, 20, 20, 20]]
    assert [one["category_id"] for one in found] == [3, 1]
    assert [one["score"] for one in found] == pytest.approx([0.9, 0.8])
    assert {one["image_id"] for one in found} == {7}
    boxes = {key: value for key, value in outputs().items() if "masks" not in key}
    without = [{k: v for k, v in one.items() if k != "segmentation"} for one in found]
    assert experiment.to_coco(boxes, [7]) == without
    # Masks are in the boxes.
    for one, (rows, columns) in zip(found, (np.s_[4:24, 8:28], np.s_[20:40, 0:10]), strict=True):
        expected = np.zeros((HEIGHT, WIDTH), bool)
        expected[rows, columns] = True
        assert (decode(one["segmentation"]) != expected).sum() <= 2 * 20  # the edge, by a pixel


def test_boxes_are_cut_where_the_image_ends():
    """The model gets the size of the resized image, not that of its padding, 64 x 64."""
    given = {}

    def model(images, **arguments):
        given.update(arguments)
        return {**outputs(), "rpn_boxes": None}

    found = experiment.infer(model, np.zeros((1, 64, 64, 3)), {}, outputs()["image_info"])
    np.testing.assert_array_equal(given["image_shape"], [[20, 20]])
    assert not given["training"]
    assert "rpn_boxes" not in found


@pytest.mark.parametrize("name", [*experiment.FOUND[::2], experiment.MASKS, *experiment.SOURCES])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_outputs_that_are_not_finite_are_an_error(name, value, truth):
    """Of whatever part of the network, of which non-maximum suppression makes no objects."""
    every = {key: np.repeat(array, 2, 0) for key, array in outputs().items()}
    info = every["image_info"]
    for key in experiment.SOURCES[:4]:
        every[key] = {level: np.zeros((2, size, size, 6), "f4") for level, size in SIZES.items()}
    every |= {key: np.zeros((2, 5, 3), "float32") for key in experiment.SOURCES[4:]}

    def run():
        return experiment.infer(lambda *_, **__: every, np.zeros((2, 64, 64, 3)), {}, info)

    assert len(experiment.to_coco({k: np.asarray(v) for k, v in run().items()}, [1, 2])) == 4
    wrong = every[name]["4"] if isinstance(every[name], dict) else every[name]
    wrong[1, ..., -1] = value
    tensors = {key: tf.constant(array) for key, array in run().items()}
    found = {key: tensor.numpy() for key, tensor in tensors.items()}
    assert np.isfinite(found["detection_scores"][0]).all()  # of the other image
    created = experiment.create_experiment(DetectionConfig(), {1: "disc"})
    task = experiment.Task(created, annotations=truth)
    detector = replace(ONE)
    vars(detector)["_infer"] = lambda _: tensors
    step = {"outputs": {**tensors, "source_id": tf.constant([1, 2])}}
    for refuse in (
        lambda: experiment.to_coco(found, [1, 2]),
        lambda: task.aggregate_logs(None, step),
        lambda: detector.predict(np.zeros((1, 64, 64, 3), "uint8")),  # of export and prediction
    ):
        with pytest.raises(ValueError, match=r"finite .* Received: (nan|-?inf) in detection_"):
            refuse()


def test_detections_of_all_steps_and_devices_are_evaluated(truth):
    """The annotations and the averages stay plain lists and dictionaries, as JSON needs them."""
    created = experiment.create_experiment(DetectionConfig(), {3: "triangle"})
    task = experiment.Task(created, annotations=truth)

    def step(*ids):
        one = {name: [tf.constant(array)] * len(ids) for name, array in outputs().items()}
        return {"outputs": {**one, "source_id": [tf.constant([number]) for number in ids]}}

    state = task.aggregate_logs(None, step(0, 1))
    state = task.aggregate_logs(state, step(2))
    assert [one["image_id"] for one in state["found"]] == [0, 0, 1, 1, 2, 2]
    logs = task.reduce_aggregated_logs(state)
    assert json.loads(json.dumps(task.figures)).keys() == {"box", "mask"}
    assert logs["box/AP"] == task.figures["box"]["AP"]


def test_numbers_are_rounded():
    """Scores to five digits, boxes to a thousandth of a pixel."""
    given = outputs()
    given["detection_scores"][0, 0] = 0.1234567
    given["detection_boxes"][0, 0, 1] = 2.12345
    one = max(experiment.to_coco(given, [1]), key=lambda one: one["category_id"])
    assert one["score"] == 0.12346
    assert one["bbox"] == [8.494, 4, 39.506, 20]


def test_categories_without_a_name_are_numbers():
    assert [ONE.name_of(number) for number in (1, 2)] == ["disc", "2"]


@pytest.mark.parametrize("masks", [False, True])
def test_card_has_the_precision_of_what_is_predicted(masks):
    test = {"box": {"AP": 12.5}} | ({"mask": {"AP": 7.25}} if masks else {})
    fields = average_precision(detector.TestMetrics.model_validate(test), 1234, " at 64 pixels")
    assert fields["Box AP"] == "12.5 (1,234 test images at 64 pixels)"
    assert fields.get("Mask AP") == ("7.25 (1,234 test images at 64 pixels)" if masks else None)


def dense():
    """A model of tf_keras, and a detector that has it."""
    model = tf_keras.Model()
    model.heads = [tf_keras.layers.Dense(3)]
    model.heads[0].build((None, 2))
    return model, replace(ONE, model=model)


@pytest.mark.parametrize("value", [0.5, np.nan, np.inf])
def test_weights_of_a_file(tmp_path, value):
    """Published folders have paths of attributes; NaN would find nothing, without a word."""
    (model, one), (other, read) = dense(), dense()
    assert list(one.named_variables()) == ["heads/0/kernel", "heads/0/bias"]
    model.heads[0].kernel[1, 2].assign(value)
    one.save_weights(tmp_path / "a.safetensors")
    if not np.isfinite(value):
        with pytest.raises(ValueError, match=r"finite weights in .*heads/0/kernel"):
            read.load_weights(tmp_path / "a.safetensors")
        return
    read.load_weights(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(other.heads[0].kernel, model.heads[0].kernel)
    other.heads += [tf_keras.layers.Dense(1)]
    other.heads[1].build((None, 3))
    with pytest.raises(ValueError, match=r"not fit .*heads/1/bias: expected .* no such array"):
        read.load_weights(tmp_path / "a.safetensors")


def test_shapes_of_a_checkpoint_are_those_of_its_model(tmp_path):
    """Neither of the optimizer, of which there are as many, nor of counters."""
    model, _ = dense()
    optimizer, variables = tf_keras.optimizers.legacy.SGD(0.1, momentum=0.9), model.variables
    optimizer.apply_gradients([(tf.ones_like(one), one) for one in variables])
    counters = {"global_step": tf.Variable(4), detector.SECONDS: tf.Variable(1.5)}
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, **counters)
    path = checkpoint.save(str(tmp_path / "ckpt"))
    assert detector.shapes_of(path) == {(2, 3): 1, (3,): 1}
