"""Experiments of TensorFlow's Model Garden from the settings of a detector."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from zoo import devices
from zoo.config.detection import DetectionConfig
from zoo.detection import heads, shards
from zoo.detection.backbone import NAME, Backbone, ZooNetwork
from zoo.detection.coco import Json
from zoo.detection.task import Task
from zoo.errors import needs_extra

with needs_extra("detection"):
    import tf_keras
    from official.core import config_definitions, exp_factory
    from official.modeling import hyperparams
    from official.vision.configs import maskrcnn  # noqa: F401  # registers the experiment

BASE = "maskrcnn_resnetfpn_coco"  # source of all values that are not set below
REFERENCE_BATCH = 256  # batch size that `optimizer.learning_rate` refers to


def create_experiment(
    config: DetectionConfig, categories: Mapping[int, str], masks: bool = True
) -> config_definitions.ExperimentConfig:
    """Creates the experiment from settings.

    Args:
        config: Settings of the detector and its training.
        categories: Names of the categories by their ids; the detector has an output for every id
            up to the last one, and one for the background.
        masks: Whether to create a Mask R-CNN, or a Faster R-CNN. Defaults to True.

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
    heads.override(experiment.task.model, model.heads)
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


def create_task(
    experiment: config_definitions.ExperimentConfig,
    logging_dir: str = "",
    annotations: Json | None = None,
    order: shards.TrainingOrder | None = None,
) -> Any:
    """Creates the task: model, losses, input pipeline, and evaluation on annotated images.

    Args:
        experiment: Experiment from `create_experiment`.
        logging_dir: Folder of the Model Garden's logs.
        annotations: Annotations of the test images; None if the detector is not evaluated.
        order: Order of the training images; None if the detector is not trained.
    """
    return Task(experiment.task, logging_dir, annotations, order)


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
