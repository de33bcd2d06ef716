"""Summary of a run before its first step."""

import numpy as np

from zoo.config import TrainConfig
from zoo.data.load import ImageData
from zoo.errors import printable


def plan(config: TrainConfig, data: ImageData) -> list[str]:
    """Returns lines about classes, steps and images of a run, and warnings."""
    training, batch_size = config.training, config.data.batch_size
    steps = data.train.steps_per_epoch(batch_size)
    parts = training.gradient_accumulation_steps
    in_parts = f" in {parts} micro-batches" if parts > 1 else ""
    lines = [
        f"{training.epochs} epochs of {steps:,} steps, {training.epochs * steps:,} in all, of "
        f"{batch_size} images of {config.model.size} x {config.model.size} pixels{in_parts}"
    ]
    labels = data.train.labels
    if labels is not None:
        counts = np.bincount(labels, minlength=len(data.class_names))
        least, most = int(counts.argmin()), int(counts.argmax())
        lines.insert(
            0,
            f"training images of a class: {counts[least]:,} ({printable(data.class_names[least])}) "
            f"to {counts[most]:,} ({printable(data.class_names[most])})",
        )
    return [*lines, *(f"warning: {one}" for one in (*_of_random_weights(config), *data.warnings))]


def _of_random_weights(config: TrainConfig) -> list[str]:
    """Returns a line if settings for pretrained weights, as of fine_tune, meet random ones."""
    settings = {
        "optimizer.layer_decay": (config.optimizer.layer_decay or 1) < 1,
        "model.freeze_backbone": config.model.freeze_backbone,
        "model.freeze_up_to": config.model.freeze_up_to is not None,
    }
    found = " and ".join(name for name, is_set in settings.items() if is_set)
    if not found or config.model.weights is not None:
        return []
    return [
        f"{found}: for pretrained weights, but this run starts from random ones (model.weights), "
        "of which the first layers then learn little or nothing"
    ]
