"""The teacher whose answers a run learns from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lambda_keras.weights import load_weights
from zoo.config import DistillationConfig
from zoo.inference.classifier import Classifier
from zoo.registry import create_model
from zoo.train.network import give_logits


def load_teacher(
    config: DistillationConfig, class_names: Sequence[str], image_size: int
) -> Any | None:
    """Returns the network that the settings name, which answers with logits; None if they do not.

    Args:
        config: Which.
        class_names: Those of the data.
        image_size: Height and width, in pixels, of the images that both networks get.

    Raises:
        ValueError: If there is no such network, or it has other classes or takes images of another
            size.
    """
    try:
        if config.run is not None:
            teacher = _of_run(config.run, class_names)
        elif config.model is not None:
            shape = (image_size, image_size, 3)
            teacher = create_model(
                config.model, classes=len(class_names), input_shape=shape, **config.overrides
            )
            load_weights(teacher, str(config.weights), config.model)
        else:
            return None
    except (ValueError, FileNotFoundError) as error:
        raise ValueError(f"distillation: {error}") from None
    if teacher.input_shape[1:3] not in ((image_size, image_size), (None, None)):
        raise ValueError(
            f"distillation: expected a teacher of images of {image_size} pixels, as "
            f"model.image_size has it. Received: {teacher.input_shape[1]} pixels"
        )
    give_logits(teacher)
    return teacher


def _of_run(folder: Path, class_names: Sequence[str]) -> Any:
    classifier = Classifier.from_run(folder)
    received = list(classifier.class_names)
    if received != list(class_names):
        raise ValueError(
            f"expected a teacher of the {len(class_names)} classes of the data "
            f"({', '.join(class_names[:3])}, ...). Received: {len(received)} classes "
            f"({', '.join(received[:3])}, ...)"
        )
    return classifier.model
