"""The Model Garden's task, with boxes clipped to images and the evaluation of this package."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from zoo.detection import coco, report, shards
from zoo.errors import needs_extra

with needs_extra("detection"):
    from official.vision.evaluation import coco_utils
    from official.vision.tasks.maskrcnn import MaskRCNNTask

# Outputs of the Model Garden's model for objects.
FOUND = ("detection_boxes", "detection_classes", "detection_scores", "num_detections")
MASKS = "detection_masks"


def infer(model: Any, images: Any, anchors: Any, info: Any) -> dict[str, Any]:
    """Runs a detector, with boxes clipped to the image.

    The Model Garden clips them to the padded image. Here, boxes are clipped before non-maximum
    suppression and mask prediction, so that masks fill the clipped boxes. `info` is of shape
    `(batch, 4, 2)`: row 0 is the size of the image before resizing and padding, row 2 the scale.
    """
    outputs = model(
        images, image_shape=info[:, 0] * info[:, 2], anchor_boxes=anchors, training=False
    )
    return {name: outputs[name] for name in (*FOUND, MASKS) if name in outputs}


class Task(MaskRCNNTask):
    """Task of Mask R-CNN, or Faster R-CNN without masks, evaluated by `zoo.detection.report`.

    Args:
        experiment: Experiment from `create_experiment`.
        logging_dir: Folder of the Model Garden's logs.
        annotations: Annotations of the test images; None if the detector is not evaluated.
        order: Order of the training images; None if the detector is not trained.
    """

    def __init__(
        self,
        experiment: Any,
        logging_dir: str = "",
        annotations: coco.Json | None = None,
        order: shards.TrainingOrder | None = None,
    ) -> None:
        super().__init__(experiment.task, logging_dir=logging_dir)
        self._order = order
        # In a separate object: tf.Module would wrap lists, which pycocotools does not accept.
        self.coco_metric = Evaluator(annotations or {}, experiment.task.model.include_mask)

    def build_inputs(
        self, params: Any, input_context: Any = None, dataset_fn: Any = None
    ) -> tf.data.Dataset:
        """Builds the Model Garden's input pipeline; training records have a fixed order."""
        order = self._order
        if params.is_training and order is not None:
            # For a single file, the Model Garden keeps the order of `dataset_fn`.
            params = copy.deepcopy(params)
            params.override({"input_path": shards.DESCRIPTION, "shuffle_buffer_size": 1})
            dataset_fn = order.records
        return super().build_inputs(params, input_context, dataset_fn)

    def validation_step(self, inputs: Any, model: Any, metrics: Any = None) -> dict[str, Any]:
        """Runs the detector on a batch of test images."""
        images, labels = inputs
        logs = {self.loss: 0}
        outputs = infer(model, images, labels["anchor_boxes"], labels["image_info"])
        self._update_metrics(labels, outputs, logs)
        return logs

    def _build_coco_metrics(self) -> None:
        pass  # of the Model Garden


class Evaluator:
    """Collects detections step by step for `zoo.detection.report.evaluate`."""

    name = "coco_metric"  # key of the Model Garden

    def __init__(self, annotations: coco.Json, masks: bool) -> None:
        self._annotations, self._masks = annotations, masks
        self._found: list[coco.Json] = []

    def reset_states(self) -> None:
        """Discards all detections."""
        self._found = []

    def update_state(self, truth: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Adds the detections of a step, with tuples of tensors from several devices."""
        arrays = {name: _array(value) for name, value in outputs.items()}
        self._found += to_coco(arrays, _array(truth["source_id"]).tolist())

    def result(self) -> dict[str, float]:
        """Evaluates all detections; returns the defined metrics, for TensorBoard."""
        self.figures = report.evaluate(self._annotations, self._found, self._masks).figures
        return {
            f"{kind}/{name}": figure
            for kind, figures in self.figures.items()
            for name, figure in figures.items()
            if figure is not None
        }


def _array(value: Any) -> np.ndarray:
    return np.concatenate([one.numpy() for one in tf.nest.flatten(value)])


def to_coco(outputs: Mapping[str, np.ndarray], ids: Any) -> list[coco.Json]:
    """Converts outputs of `Detector.predict` to COCO's format of results.

    Returns:
        A dict for each object, the highest scores of an image first: `image_id`, `category_id`,
        `bbox` (left, top, width, height in pixels), `score` from 0 to 1, and, with masks,
        `segmentation`, an RLE.
    """
    scale = np.tile(outputs["image_info"][:, 2:3, :], (1, 1, 2))
    arrays = {
        **outputs,
        "source_id": np.array(ids),
        "detection_boxes": outputs["detection_boxes"].astype("float32") / scale,
    }
    if MASKS in outputs:
        arrays[MASKS] = outputs[MASKS].astype("float32")
    batches = {name: [array] for name, array in arrays.items()}
    results = []
    for one in coco_utils.convert_predictions_to_coco_annotations(batches):
        # Score 0 is padding; boxes within the padding of the image are clipped to nothing.
        if one["score"] <= 0 or min(one["bbox"][2:]) <= 0:
            continue
        result = {
            "image_id": int(one["image_id"]),
            "category_id": int(one["category_id"]),
            "bbox": [round(float(side), 3) for side in one["bbox"]],
            "score": round(float(one["score"]), 5),
        }
        if MASKS in outputs:
            result["segmentation"] = coco.as_text(one["segmentation"])
        results.append(result)
    return results
