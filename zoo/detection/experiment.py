"""Experiments of TensorFlow's Model Garden from the settings of a detector."""

import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from zoo import devices
from zoo.config.detection import STRIDE, DetectionConfig
from zoo.detection import shards
from zoo.detection.backbone import LEVELS, NAME, Backbone, ZooNetwork
from zoo.errors import needs_extra, unknown

with needs_extra("detection"):
    import tf_keras
    from official.core import config_definitions, exp_factory
    from official.modeling import hyperparams
    from official.vision.configs import maskrcnn  # noqa: F401  # registers the experiment

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


def create_experiment(
    config: DetectionConfig, categories: Mapping[int, str], masks: bool = True
) -> config_definitions.ExperimentConfig:
    """Creates the experiment of a Mask R-CNN, or of a Faster R-CNN without masks.

    The detector has an output for every category id up to the last one, and one for the background.

    Raises:
        ValueError: If `model.heads` does not fit the Model Garden's fields, or the data.
    """
    experiment = exp_factory.get_exp_config(BASE)
    model, data, training = config.model, config.data, config.training
    dtype = "bfloat16" if training.precision == "mixed_bfloat16" else "float32"
    network = ZooNetwork(
        name=model.name, weights=model.weights, overrides=hyperparams.Config(model.overrides)
    )
    experiment.task.model.backbone = Backbone(type=NAME, lambda_keras=network)
    _override(experiment.task.model, model.heads)
    if not masks:
        if model.heads.get("include_mask"):
            raise ValueError(
                "model.heads.include_mask: expected false, for the data have boxes alone. "
                "Received: true"
            )
        experiment.task.model.include_mask = False
    experiment.override(
        {
            "runtime": {"mixed_precision_dtype": dtype},
            "task": {
                "init_checkpoint": None,
                "annotation_file": str(data.dir / shards.ANNOTATIONS),
                "freeze_backbone": model.freeze_backbone,
                "losses": {"l2_weight_decay": config.optimizer.weight_decay},
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
                    "parser": {"aug_scale_min": data.scale_min, "aug_scale_max": data.scale_max},
                },
                "validation_data": {
                    "input_path": shards.pattern(data.dir, shards.TEST),
                    "global_batch_size": data.test_batch_size,
                    "dtype": dtype,
                },
            },
            "trainer": {
                "train_steps": training.steps,
                "validation_steps": -1,  # all images
                "validation_interval": training.evaluation_steps,
                "checkpoint_interval": training.checkpoint_steps,
                "steps_per_loop": training.steps_per_execution,
                "summary_interval": training.steps_per_execution,
                "optimizer_config": _optimizer(config),
            },
        },
        is_strict=True,
    )
    experiment.validate()
    return experiment


def _override(model: Any, heads: Mapping[str, Any]) -> None:
    """Sets fields of the Model Garden's `MaskRCNN` after checking their types and ranges."""
    try:
        _check(model, heads)
        model.override(dict(heads), is_strict=True)
        low, high, highest = model.min_level, model.max_level, STRIDE.bit_length() - 1
        if not min(map(int, LEVELS)) <= low <= min(high, max(map(int, LEVELS))) <= high <= highest:
            raise ValueError(
                f"expected min_level from 2 to 5, and max_level from that to {highest}. Received: "
                f"min_level={low}, max_level={high}"
            )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"model.heads: {' '.join(str(error).split())}") from None


def _check(group: Any, heads: Mapping[str, Any], name: str = "") -> None:
    hints = get_type_hints(type(group))
    for key, value in heads.items():
        place = f"{name}{key}"
        if place in DECIDED:
            raise ValueError(f"{place}: expected no value, for {DECIDED[place]}")
        field = getattr(group, key, None)
        if key not in hints:
            own = get_type_hints(hyperparams.Config)
            known = [hint for hint in hints if hint not in own and name + hint not in DECIDED]
            raise ValueError(
                f"expected fields of the Model Garden's MaskRCNN. {unknown(place, known)}"
            )
        if isinstance(field, hyperparams.Config):
            if not isinstance(value, dict):
                raise ValueError(f"{place}: expected fields. Received: {reprlib.repr(value)}")
            _check(field, value, f"{place}.")
            continue
        try:
            TypeAdapter(hints[key], config=CHECKED).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise ValueError(f"{place}: {reason}. Received: {reprlib.repr(value)}") from None
        if not _in_range(key, value):
            raise ValueError(f"{place}: out of range. Received: {reprlib.repr(value)}")


def _in_range(key: str, value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_in_range(key, one) for one in value)
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
        with devices.precision(policy):
            yield
    finally:
        tf_keras.mixed_precision.set_global_policy(before)


def _optimizer(config: DetectionConfig) -> dict[str, Any]:
    optimizer, steps = config.optimizer, config.training.steps
    rate = optimizer.learning_rate * config.data.batch_size / REFERENCE_BATCH
    # The Model Garden has no schedule without boundaries.
    parts = optimizer.decay_at or [1.0]
    return {
        "optimizer": {"type": "sgd", "sgd": {"momentum": optimizer.momentum}},
        "learning_rate": {
            "type": "stepwise",
            "stepwise": {
                "boundaries": [round(part * steps) for part in parts],
                "values": [rate / 10**number for number in range(len(parts) + 1)],
            },
        },
        "warmup": {
            "type": "linear",
            "linear": {"warmup_steps": optimizer.warmup_steps, "warmup_learning_rate": 0.0},
        },
    }
