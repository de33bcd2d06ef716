"""Experiments and tasks of TensorFlow's Model Garden from the settings of a detector.

Backbones are networks of the zoo (Keras 3); tf_keras sees only their variables and outputs.
"""

import copy
import dataclasses
import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, get_type_hints

import keras
import numpy as np
import tensorflow as tf
from pydantic import ConfigDict, TypeAdapter, ValidationError

from lambda_keras.applications import feature_extractor
from lambda_keras.models.specs import STAGES
from zoo.detection import coco, report, shards
from zoo.detection.config import STRIDE, DetectionConfig
from zoo.errors import check_known, errors_of, needs_extra, require
from zoo.inference.predictions import check_outputs
from zoo.precision import precision as keras_precision
from zoo.registry import create_model
from zoo.variables import kernels, set_batch_norm

with needs_extra("detection"):
    import tf_keras
    from official.core import config_definitions, exp_factory
    from official.modeling import hyperparams
    from official.vision.configs import backbones
    from official.vision.evaluation import coco_utils
    from official.vision.modeling.backbones import factory
    from official.vision.tasks.maskrcnn import MaskRCNNTask  # its import registers the experiment

NAME = "lambda_keras"  # type of these backbones in the Model Garden
# The Model Garden's names of feature maps: logarithms of their strides.
LEVELS = dict(zip(("2", "3", "4", "5"), STAGES, strict=True))
BASE = "maskrcnn_resnetfpn_coco"  # source of all values that are not set below
REFERENCE_BATCH = 256  # batch size that `optimizer.learning_rate` refers to
# Fields that other settings determine, or that this package does not support.
DECIDED = {
    "num_classes": "the categories of the data decide it",
    "input_size": "model.image_size decides it",
    "backbone": "model.name and model.overrides decide it",
    "norm_activation.norm_momentum": "model.batch_norm_momentum decides it",
    "norm_activation.use_sync_bn": "model.synchronized_batch_norm decides it",
    "outer_boxes_scale": "masks fill their boxes",
    "detection_generator.apply_nms": "overlapping boxes are always removed",
}
MAY_BE_0 = ("num_convs", "num_fcs")
LARGEST = 2**16
NMS = ("v1", "v2", "v3", "batched")
CHECKED = ConfigDict(strict=True, allow_inf_nan=False)
# Outputs of the Model Garden's model for objects.
SCORES = "detection_scores"
FOUND = ("detection_boxes", "detection_classes", SCORES, "num_detections")
MASKS = "detection_masks"
# Outputs from which objects are computed.
SOURCES = ("backbone_features", "decoder_features", "rpn_boxes", "rpn_scores", "class_outputs",
           "box_outputs")  # fmt: skip


@dataclasses.dataclass
class ZooNetwork(hyperparams.Config):
    """Arguments of `zoo.registry.create_model`."""

    name: str = ""
    weights: str | None = None
    overrides: hyperparams.Config = dataclasses.field(default_factory=hyperparams.Config)


@dataclasses.dataclass
class Backbone(backbones.Backbone):
    """Backbones of the Model Garden and of the zoo."""

    type: str | None = NAME
    lambda_keras: ZooNetwork = dataclasses.field(default_factory=ZooNetwork)


class KerasBackbone(tf_keras.Model):
    """A Keras 3 network as a model of tf_keras, from images to a dict of feature maps.

    Images are normalized by the Model Garden, with the same result as
    `lambda_keras.applications.preprocess_input`. Batch statistics are used in training, but never
    if `trainable` is False. The regularizer is a function from a kernel to a term of the loss.
    """

    def __init__(self, network: keras.Model, regularizer: Any = None) -> None:
        super().__init__(name=network.name)
        features: Any = feature_extractor(network)
        self.output_specs = {
            level: tf.TensorShape(features.output[stage].shape) for level, stage in LEVELS.items()
        }
        size = network.input_shape[1]
        strides = [size // features.output[stage].shape[1] for stage in STAGES]
        expected = [2 ** int(level) for level in LEVELS]
        require(
            strides == expected,
            f"model.name: expected a network with feature maps at strides {expected}",
            f"{network.name} with strides {strides} (--model.overrides stem=rs gives "
            "lambda_resnet14 others)",
        )
        # tf_keras would track the Keras 3 layers of the network as its own, and fail.
        object.__setattr__(self, "features", features)
        # Keys are positions: checkpoints depend on them, and names of layers have counters.
        # `value` is the tf.Variable, which a call would cast to the compute dtype.
        self.network_variables = {
            str(place): variable.value for place, variable in enumerate(features.weights)
        }
        if regularizer is not None:
            for kernel in kernels(features):
                self.add_loss(partial(regularizer, kernel.value))

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> dict[str, tf.Tensor]:
        maps = self.features(inputs, training=bool(training) and self.trainable)  # pyright: ignore[reportAttributeAccessIssue]
        return {level: maps[stage] for level, stage in LEVELS.items()}


@factory.register_backbone_builder(NAME)
def build_backbone(
    input_specs: Any, backbone_config: Any, norm_activation_config: Any, l2_regularizer: Any = None
) -> KerasBackbone:
    """Builds a backbone for the Model Garden.

    Batch normalization has the detector's momentum and synchronization, layers have the dtype
    policy of tf_keras, and kernels have the weight decay.
    """
    config = backbone_config.get()
    with keras_precision(tf_keras.mixed_precision.global_policy().name):
        network = create_model(
            config.name,
            include_top=False,
            input_shape=tuple(input_specs.shape[1:]),
            weights=config.weights,
            **config.overrides.as_dict(),
        )
    norm = norm_activation_config
    set_batch_norm(network, norm.norm_momentum, norm.use_sync_bn)
    return KerasBackbone(network, l2_regularizer)


def create_experiment(
    config: DetectionConfig,
    categories: Mapping[int, str],
    masks: bool = True,
    most_objects: int = shards.MOST_OBJECTS,
) -> config_definitions.ExperimentConfig:
    """Creates the experiment of a Mask R-CNN, or of a Faster R-CNN without masks.

    The detector has an output for every category id up to the last one, and one for the background.
    It detects at most `most_objects` objects in an image, the most in an image of the data, unless
    `model.heads` sets `detection_generator.max_num_detections`.
    """
    experiment = exp_factory.get_exp_config(BASE)
    model, data, training = config.model, config.data, config.training
    optimizer = config.optimizer
    rate = optimizer.learning_rate * data.batch_size / REFERENCE_BATCH
    # The Model Garden has no schedule without boundaries.
    parts = optimizer.decay_at or [1.0]
    warmup = {"warmup_steps": optimizer.warmup_steps, "warmup_learning_rate": 0.0}
    dtype = "bfloat16" if training.precision == "mixed_bfloat16" else "float32"
    network = ZooNetwork(
        name=model.name, weights=model.weights, overrides=hyperparams.Config(model.overrides)
    )
    experiment.task.model.backbone = Backbone(type=NAME, lambda_keras=network)
    experiment.task.model.detection_generator.max_num_detections = most_objects
    _override(experiment.task.model, model.heads)
    if dtype == "bfloat16":
        _check_suppression(experiment.task.model)
    if not masks:
        expected = "model.heads.include_mask: expected false, for the data have boxes alone"
        require(not model.heads.get("include_mask"), expected, "true")
        experiment.task.model.include_mask = False
    experiment.override(
        {
            "runtime": {"mixed_precision_dtype": dtype},
            "task": {
                "init_checkpoint": None,
                "use_coco_metrics": False,  # `Task` evaluates
                "freeze_backbone": model.freeze_backbone,
                "losses": {"l2_weight_decay": optimizer.weight_decay},
                "model": {
                    "num_classes": max(categories) + 1,
                    "input_size": [model.image_size, model.image_size, 3],
                    "norm_activation": {
                        "norm_momentum": model.batch_norm_momentum,
                        "use_sync_bn": model.synchronized_batch_norm,
                    },
                },
                "train_data": {
                    "input_path": shards.pattern(data.dir, shards.TRAIN),
                    "global_batch_size": data.batch_size,
                    "dtype": dtype,
                    "shuffle_buffer_size": data.shuffle_buffer,
                    "parser": {
                        "aug_scale_min": data.scale_min,
                        "aug_scale_max": data.scale_max,
                        "max_num_instances": most_objects,
                    },
                },
                "validation_data": {
                    "input_path": shards.pattern(data.dir, shards.TEST),
                    "global_batch_size": data.test_batch_size,
                    "dtype": dtype,
                    "parser": {"max_num_instances": most_objects},
                },
            },
            "trainer": {
                "train_steps": training.steps,
                "validation_steps": -1,  # all images
                "validation_interval": training.evaluation_steps,
                "checkpoint_interval": training.checkpoint_steps,
                "steps_per_loop": training.steps_per_execution,
                "summary_interval": training.steps_per_execution,
                "optimizer_config": {
                    "optimizer": {"type": "sgd", "sgd": {"momentum": optimizer.momentum}},
                    "learning_rate": {
                        "type": "stepwise",
                        "stepwise": {
                            "boundaries": [round(part * training.steps) for part in parts],
                            "values": [rate / 10**number for number in range(len(parts) + 1)],
                        },
                    },
                    "warmup": {"type": "linear", "linear": warmup},
                },
            },
        },
        is_strict=True,
    )
    experiment.validate()
    return experiment


def _override(model: Any, heads: Mapping[str, Any]) -> None:
    """Sets fields of the Model Garden's `MaskRCNN` after checking their types and ranges."""
    kinds = (KeyError, TypeError, ValueError, AttributeError)
    with errors_of("model.heads", kinds, lambda error: " ".join(str(error).split())):
        _check(model, heads)
        model.override(dict(heads), is_strict=True)
        low, high, highest = model.min_level, model.max_level, STRIDE.bit_length() - 1
        expected = f"expected min_level from 2 to 5, and max_level from that to {highest}"
        received = f"min_level={low}, max_level={high}"
        require(str(low) in LEVELS and low <= high <= highest, expected, received)


def _check_suppression(model: Any) -> None:
    """Refuses batched non-maximum suppression: TensorFlow's operation takes only float32."""
    batched = {
        "roi_generator.use_batched_nms": model.roi_generator.use_batched_nms,
        "detection_generator.nms_version": model.detection_generator.nms_version == "batched",
    }
    require(
        not any(batched.values()),
        "model.heads: expected no batched suppression of boxes with "
        "training.precision=mixed_bfloat16",
        ", ".join(name for name, is_batched in batched.items() if is_batched),
    )


def _check(group: Any, heads: Mapping[str, Any], name: str = "") -> None:
    hints = get_type_hints(type(group))
    for key, value in heads.items():
        place = f"{name}{key}"
        if place in DECIDED:
            raise ValueError(f"{place}: expected no value, for {DECIDED[place]}")
        field = getattr(group, key, None)
        if key not in hints:
            base_hints = get_type_hints(hyperparams.Config)
            known = [
                hint for hint in hints if hint not in base_hints and name + hint not in DECIDED
            ]
            check_known(place, known, "expected fields of the Model Garden's MaskRCNN")
        if isinstance(field, hyperparams.Config):
            require(isinstance(value, dict), f"{place}: expected fields", reprlib.repr(value))
            _check(field, value, f"{place}.")
            continue
        reason = "" if _in_range(key, value) else "out of range"
        try:
            TypeAdapter(hints[key], config=CHECKED).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
        require(not reason, f"{place}: {reason}", reprlib.repr(value))


def _in_range(key: str, value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_in_range(key, item) for item in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(key not in MAY_BE_0) <= value <= LARGEST
    if isinstance(value, float):
        return 0 <= value <= LARGEST
    return key != "nms_version" or value in NMS


@contextmanager
def precision(policy: str) -> Iterator[None]:
    """Sets the dtype policy of Keras and tf_keras in the `with` block."""
    before = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy(policy)
    try:
        with keras_precision(policy):
            yield
    finally:
        tf_keras.mixed_precision.set_global_policy(before)


def infer(model: Any, images: Any, anchors: Any, info: Any) -> dict[str, Any]:
    """Runs a detector, with boxes clipped to the image.

    The Model Garden clips them to the padded image. Here, boxes are clipped before non-maximum
    suppression and mask prediction, so that masks fill the clipped boxes. `info` is of shape
    `(batch, 4, 2)`: row 0 is the size of the image before resizing and padding, row 2 the scale.
    Non-maximum suppression turns NaN into no objects: the scores of such an image become NaN.
    """
    size = info[:, 0] * info[:, 2]
    outputs = model(images, image_shape=size, anchor_boxes=anchors, training=False)
    detections = {name: outputs[name] for name in (*FOUND, MASKS) if name in outputs}
    scores, finite = detections[SCORES], tf.constant(True)
    sources = [outputs[name] for name in (*SOURCES, MASKS) if outputs.get(name) is not None]
    for tensor in tf.nest.flatten(sources):
        finite &= tf.reduce_all(tf.math.is_finite(tensor), range(1, len(tensor.shape)))
    scores = tf.where(tf.expand_dims(finite, -1), scores, tf.constant(np.nan, scores.dtype))
    return {**detections, SCORES: scores, "image_info": info}


class Task(MaskRCNNTask):
    """Task of Mask R-CNN, or Faster R-CNN without masks, evaluated by `zoo.detection.report`.

    Evaluation needs the `annotations` of the test images, and sets `figures` to its metrics.
    Training needs `records`, a function that returns its dataset.
    """

    def __init__(
        self,
        experiment: Any,
        logging_dir: str = "",
        annotations: coco.Json | None = None,
        records: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(experiment.task, logging_dir=logging_dir)
        self.training_records = records
        # `tf.Module` would wrap the lists, which pycocotools does not accept.
        object.__setattr__(self, "_annotations", annotations)

    def build_inputs(
        self, params: Any, input_context: Any = None, dataset_fn: Any = None
    ) -> tf.data.Dataset:
        """Builds the Model Garden's input pipeline; training records have a fixed order."""
        if params.is_training and self.training_records is not None:
            # For a single file, the Model Garden keeps the order of `dataset_fn`.
            params = copy.deepcopy(params)
            params.override({"input_path": shards.DESCRIPTION, "shuffle_buffer_size": 1})
            dataset_fn = self.training_records
        return super().build_inputs(params, input_context, dataset_fn)

    def validation_step(self, inputs: Any, model: Any, metrics: Any = None) -> dict[str, Any]:
        """Runs the detector on a batch of test images."""
        images, labels = inputs
        outputs = infer(model, images, labels["anchor_boxes"], labels["image_info"])
        outputs["source_id"] = labels["groundtruths"]["source_id"]
        return {self.loss: 0, "outputs": outputs}

    def aggregate_logs(self, state: Any = None, step_outputs: Any = None) -> dict[str, Any]:
        """Collects the detections of a step, with tuples of tensors from several devices."""
        state = state or {"found": []}
        arrays = {
            name: np.concatenate([tensor.numpy() for tensor in tf.nest.flatten(value)])
            for name, value in step_outputs["outputs"].items()
        }
        state["found"] += to_coco(arrays, arrays["source_id"])
        return state

    def reduce_aggregated_logs(self, aggregated_logs: Any, global_step: Any = None) -> Any:
        """Evaluates all detections; returns the defined metrics, for TensorBoard."""
        masks = self.task_config.model.include_mask
        figures = report.evaluate(self._annotations, aggregated_logs["found"], masks).figures
        object.__setattr__(self, "figures", figures)
        return {
            f"{kind}/{name}": figure
            for kind, averages in figures.items()
            for name, figure in averages.items()
            if figure is not None
        }


def to_coco(outputs: Mapping[str, np.ndarray], ids: Any) -> list[coco.Json]:
    """Converts outputs of `Detector.predict` to COCO's format of results.

    Returns:
        A dict for each object, the highest scores of an image first: `image_id`, `category_id`,
        `bbox` (left, top, width, height in pixels), `score` from 0 to 1, and, with masks,
        `segmentation`, an RLE.

    Raises:
        ValueError: If outputs are not finite.
    """
    check_outputs(
        "the detector", {name: outputs[name] for name in (*FOUND, MASKS) if name in outputs}
    )
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
    for detection in coco_utils.convert_predictions_to_coco_annotations(batches):
        # Score 0 is padding; boxes within the padding of the image are clipped to nothing.
        if detection["score"] <= 0 or min(detection["bbox"][2:]) <= 0:
            continue
        result = {
            "image_id": int(detection["image_id"]),
            "category_id": int(detection["category_id"]),
            "bbox": [round(float(side), 3) for side in detection["bbox"]],
            "score": round(float(detection["score"]), 5),
        }
        if MASKS in outputs:
            result["segmentation"] = coco.as_text(detection["segmentation"])
        results.append(result)
    return results
