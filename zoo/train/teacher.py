"""The teacher of knowledge distillation."""

from collections.abc import Sequence
from typing import Any

from zoo.config import DistillationConfig
from zoo.inference.source.kinds import choose
from zoo.train.network import give_logits


def load_teacher(
    config: DistillationConfig, class_names: Sequence[str], image_size: int
) -> Any | None:
    """Returns the network that the settings name, with logits as outputs; None if they do not.

    Args:
        config: Source of the teacher.
        class_names: Those of the data.
        image_size: Height and width, in pixels, of the images that both networks get.

    Raises:
        ValueError: If there is no such network, or it has other classes or takes images of another
            size.
    """
    if not config.has_teacher:
        return None
    try:
        classifier = choose(config).for_data(class_names, image_size).load()
        received = list(classifier.class_names)
        if received != list(class_names):
            raise ValueError(
                f"expected a teacher of the {len(class_names)} classes of the data "
                f"({', '.join(class_names[:3])}, ...). Received: {len(received)} classes "
                f"({', '.join(received[:3])}, ...)"
            )
    except (ValueError, FileNotFoundError) as error:
        raise ValueError(f"distillation: {error}") from None
    teacher = classifier.model
    if teacher.input_shape[1:3] not in ((image_size, image_size), (None, None)):
        raise ValueError(
            f"distillation: expected a teacher of images of {image_size} pixels, as "
            f"model.image_size has it. Received: {teacher.input_shape[1]} pixels"
        )
    give_logits(teacher)
    return teacher
