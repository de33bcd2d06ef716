"""A trained detector, and what it finds in images."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import tensorflow as tf
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoo import run_folder
from zoo.detection.coco import Json
from zoo.detection.config import DetectionConfig
from zoo.detection.experiment import create_experiment, create_task, precision
from zoo.errors import first_wrong, needs_extra

with needs_extra("detection"):
    from official.vision.evaluation import coco_utils
    from official.vision.serving.detection import DetectionModule

# Outputs of the Model Garden's model that are about objects.
FOUND = ("detection_boxes", "detection_classes", "detection_scores", "detection_masks")
Arrays = Mapping[str, np.ndarray]


class Metrics(BaseModel):
    """What commands read of the `metrics.json` of a detector."""

    model_config = ConfigDict(strict=True)

    categories: dict[str, str] = Field(min_length=1)
    test: dict[str, dict[str, float | None]]
    test_images: int
    training_images: int


@dataclass(frozen=True)
class Detector:
    """A Mask R-CNN with its weights, computing in float32.

    Attributes:
        name: Name of its backbone in the zoo.
        model: The Model Garden's model, of tf_keras.
        experiment: The Model Garden's settings.
        categories: Names of the categories by their ids.
    """

    name: str
    model: Any
    experiment: Any
    categories: Mapping[int, str]

    @classmethod
    def from_run(cls, folder: Path) -> Self:
        """Loads the detector of a finished run.

        Raises:
            ValueError: If the folder is missing or holds no finished run of a detector.
        """
        config = run_folder.read_config(folder, DetectionConfig)
        names = load_metrics(folder).categories
        return cls.restore(
            config.model_copy(update={"output_dir": folder}),
            {int(number): name for number, name in names.items()},
        )

    @classmethod
    def restore(cls, config: DetectionConfig, categories: Mapping[int, str]) -> Self:
        """Builds the detector of a run and reads its last checkpoint.

        Raises:
            ValueError: If there is none, or it is not of this detector.
        """
        folder = config.output_dir / run_folder.CHECKPOINTS
        path = tf.train.latest_checkpoint(str(folder))
        if path is None:
            raise ValueError(f"run: expected checkpoints in {str(folder)!r}. Received: none")
        # The weights come from the checkpoint, not from where training started.
        model = config.model.model_copy(update={"weights": None})
        training = config.training.model_copy(update={"precision": "float32"})
        config = config.model_copy(update={"model": model, "training": training})
        experiment = create_experiment(config, categories)
        with precision("float32"):
            detector = create_task(experiment).build_model()
        try:
            status = tf.train.Checkpoint(model=detector).read(path)
            status.assert_existing_objects_matched().expect_partial()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"run: {path} is damaged or of another detector: {reason}") from None
        return cls(config.model.name, detector, experiment, categories)

    @property
    def image_size(self) -> int:
        """Height and width that images are resized to fit, in pixels."""
        return self.experiment.task.model.input_size[0]

    @cached_property
    def module(self) -> DetectionModule:
        """What the Model Garden exports: photographs go in, detections come out."""
        return DetectionModule(
            self.experiment,
            batch_size=None,
            input_image_size=[self.image_size, self.image_size],
            model=self.model,
        )

    @cached_property
    def _infer(self) -> Any:
        # Of any size: else photographs of each size would be traced anew.
        images = tf.TensorSpec((None, None, None, 3), tf.uint8)
        return self.module.inference_from_image_tensors.get_concrete_function(images)

    def ask(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """Returns what the exported detector does for images of one size.

        Args:
            images: uint8, of shape `(count, height, width, 3)`.

        Returns:
            `detection_boxes` (count, 100, 4), each [top, left, bottom, right] in pixels of the
            resized image, `detection_classes`, `detection_scores`, `detection_masks`,
            `num_detections`, and `image_info` (count, 4, 2), of which row 2 is the scale.
        """
        outputs = self._infer(tf.constant(images))
        return {name: value.numpy() for name, value in outputs.items()}

    def detect_shards(self, files: str, batch_size: int) -> Iterator[list[Json]]:
        """Yields the objects in the images of shards, batch by batch, as `detect` returns them.

        Args:
            files: Which shards, as `zoo.detection.shards.pattern` returns it.
            batch_size: Images of a step.
        """
        task = create_task(self.experiment)
        data = copy.deepcopy(self.experiment.task.validation_data)
        data.override({"input_path": files, "global_batch_size": batch_size}, is_strict=True)

        @tf.function
        def infer(images: tf.Tensor, labels: Any) -> dict[str, tf.Tensor]:
            outputs = self.model(
                images,
                image_shape=labels["image_info"][:, 1, :],
                anchor_boxes=labels["anchor_boxes"],
                training=False,
            )
            return {name: outputs[name] for name in FOUND}

        for images, labels in task.build_inputs(data):
            found = {name: value.numpy() for name, value in infer(images, labels).items()}
            found["image_info"] = labels["image_info"].numpy()
            yield to_coco(found, labels["groundtruths"]["source_id"].numpy().tolist())

    def detect(self, image: np.ndarray, number: int = 0) -> list[Json]:
        """Returns the objects in an image, in COCO's format of results.

        Args:
            image: uint8, of shape `(height, width, 3)`.
            number: The id of the image. Defaults to 0.
        """
        return to_coco(self.ask(image[None]), [number])


def to_coco(outputs: Arrays, ids: Sequence[int]) -> list[Json]:
    """Returns detections in COCO's format of results, the most certain ones of an image first.

    Args:
        outputs: What `Detector.ask` returns.
        ids: Of the images.

    Returns:
        A dict for each object: `image_id`, `category_id`, `bbox` (left, top, width, height in
        pixels, cut at the edges of the image), `score` from 0 to 1, and `segmentation`, an RLE.
    """
    scale = np.tile(outputs["image_info"][:, 2:3, :], (1, 1, 2))
    found = coco_utils.convert_predictions_to_coco_annotations(
        {
            "source_id": [np.array(ids)],
            "detection_boxes": [outputs["detection_boxes"].astype("float32") / scale],
            "detection_classes": [outputs["detection_classes"]],
            "detection_scores": [outputs["detection_scores"]],
            "detection_masks": [outputs["detection_masks"].astype("float32")],
            "image_info": [outputs["image_info"]],
        }
    )
    results = []
    for one in found:
        height, width = map(int, one["segmentation"]["size"])
        left, top, *sides = map(float, one["bbox"])
        # The detector may find something in what an image is padded with.
        right, bottom = min(left + sides[0], width), min(top + sides[1], height)
        if one["score"] <= 0 or min(right - left, bottom - top) <= 0:
            continue  # the former fills up the hundred
        results.append(
            {
                "image_id": int(one["image_id"]),
                "category_id": int(one["category_id"]),
                "bbox": [round(side, 3) for side in (left, top, right - left, bottom - top)],
                "score": round(float(one["score"]), 5),
                "segmentation": {
                    "size": [height, width],
                    "counts": one["segmentation"]["counts"].decode(),
                },
            }
        )
    return results


def load_metrics(folder: Path) -> Metrics:
    """Returns the results of a finished run of a detector.

    Raises:
        ValueError: If the file is damaged, or not of a detector.
    """
    path = folder / run_folder.METRICS
    try:
        return Metrics.model_validate_json(path.read_bytes())
    except ValidationError as error:
        received = f"Received: {path} ({first_wrong(error, 'the file')})"
        raise ValueError(f"run: expected the metrics.json of a detector. {received}") from None
