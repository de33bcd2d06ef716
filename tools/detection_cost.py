"""Parameters and FLOPs of detectors: `python -m tools.detection_cost NAME ...`."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from pydantic_settings import CliPositionalArg

from zoo.cli.run import run_command
from zoo.cli.settings import Settings
from zoo.detection.coco import MAX_CATEGORY
from zoo.detection.config import STRIDE, DetectionConfig
from zoo.fields import AnyPath, BatchSize, checked_by
from zoo.model_card import table
from zoo.registry import find_model
from zoo.variables import trainable_parameters


class CostConfig(Settings):
    """Counts trainable parameters and FLOPs of a detector for one image.

    FLOPs are counted for convolutions and matrix products of the whole network, two for each
    multiply-accumulate as in the paper, with 1000 proposals and 100 objects. Examples:

      python -m tools.detection_cost resnet_rs101_no_se lambda_resnet101
      python -m tools.detection_cost lambda_resnet101 --image_size 256 --dir coco --batch_size 2
    """

    models: CliPositionalArg[list[Annotated[str, checked_by(find_model)]]]
    """Backbones, by their names: see python -m zoo.list."""
    image_size: int = Field(default=1024, ge=STRIDE, le=2**16, multiple_of=STRIDE)
    """Height and width in pixels."""
    categories: int = Field(default=90, ge=1, le=MAX_CATEGORY)
    """The last id of a category; COCO's is 90."""
    masks: bool | None = None
    """Count Mask R-CNN; false: Faster R-CNN; None: as the shards of --dir, or Mask R-CNN."""
    dir: AnyPath | None = None
    """Folder of shards: also measure time and memory of a training step on their images, in
    float32."""
    batch_size: BatchSize = 2
    """Images per training step."""


STEPS = 3  # timed steps, after one for tracing


class Cost(NamedTuple):
    """Trainable parameters and FLOPs of a part of a detector."""

    parameters: int
    flops: int


def main(arguments: Sequence[str]) -> None:
    """Builds the detectors and prints a table."""
    config = CostConfig.from_command_line(arguments, "python -m tools.detection_cost")
    from zoo.detection.shards import Dataset

    size, known = config.image_size, config.dir is None or Dataset.read(config.dir).masks
    if config.masks and not known:
        raise ValueError(f"masks: expected shards with masks. Received: {str(config.dir)!r}")
    masks = known if config.masks is None else config.masks
    kind = "Mask R-CNN" if masks else "Faster R-CNN"
    print(f"{kind} at {size} x {size}, {config.categories} categories")
    heads = ["backbone", "parameters (M)", "of the backbone", "GFLOPs", "of the backbone"]
    heads += ["s / step", "GB"] if config.dir else []
    print(table(heads, []))
    for name in config.models:
        parts = count(name, size, config.categories, masks)
        parameters, flops = (sum(part) for part in zip(*parts.values(), strict=True))
        backbone = parts["backbone"]
        figures: list[float | None]
        figures = [parameters / 1e6, backbone.parameters / 1e6, flops / 1e9, backbone.flops / 1e9]
        if config.dir is not None:
            figures += time_step(name, size, config.dir, config.batch_size, masks)
        cells = ["-" if figure is None else f"{figure:.2f}" for figure in figures]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def count(name: str, image_size: int, categories: int, masks: bool = True) -> dict[str, Cost]:
    """Counts a detector by part: backbone, pyramid, proposals, boxes, masks."""
    from lambda_keras.applications import count_flops
    from zoo.detection.detector import Detector
    from zoo.detection.shards import Labels

    config = DetectionConfig.model_validate({"model": {"name": name, "image_size": image_size}})
    detector = Detector.build(config, Labels(categories={categories: "last"}), masks)
    model, settings = detector.model, detector.experiment.task.model
    levels = range(settings.min_level, settings.max_level + 1)
    places = {level: (image_size // 2**level) ** 2 for level in levels}
    boxes, crop = settings.roi_generator.test_num_proposals, settings.roi_aligner.crop_size

    def part(head: Any, positions: Callable[[Any], int]) -> Cost:
        flops = 0
        for layer in head._flatten_layers():
            if (kernel := getattr(layer, "kernel", None)) is not None:
                flops += 2 * kernel.shape.num_elements() * positions(layer)
        return Cost(trainable_parameters(head), flops)

    # Layers compute at input positions in the mask head, at output positions elsewhere.
    parts = {
        "backbone": Cost(
            trainable_parameters(model.backbone), count_flops(model.backbone.features)
        ),
        "pyramid": part(model.decoder, lambda layer: places[int(layer.name.split("_")[-1])]),
        "proposals": part(model.rpn_head, lambda layer: sum(places.values())),
        "boxes": part(
            model.detection_head[0],
            lambda layer: boxes * (crop**2 if layer.kernel.shape.rank == 4 else 1),
        ),
    }
    if masks:
        objects = settings.detection_generator.max_num_detections
        objects *= settings.mask_roi_aligner.crop_size**2
        # The last convolution follows the transposed one, which doubles both sides.
        parts["masks"] = part(
            model.mask_head, lambda layer: objects * (4 if layer.kernel.shape[0] == 1 else 1)
        )
    return parts


def time_step(
    name: str, image_size: int, folder: Path, batch_size: int, masks: bool
) -> tuple[float, float | None]:
    """Measures training steps on one batch: mean seconds, and peak GB in TensorFlow, if known."""
    import tensorflow as tf

    from zoo.detection import shards
    from zoo.detection.detector import Detector
    from zoo.detection.experiment import Task

    dataset = shards.Dataset.read(folder)
    shards.check(folder, dataset, shards.TRAIN)
    data = {"dir": str(folder), "batch_size": batch_size, "shuffle_buffer": 1}
    config = {"model": {"name": name, "image_size": image_size}, "data": data}
    config = DetectionConfig.model_validate(config)
    detector = Detector.build(config, dataset, masks)
    task, model = Task(detector.experiment), detector.model
    optimizer = task.create_optimizer(detector.experiment.trainer.optimizer_config)
    inputs = next(iter(task.build_inputs(detector.experiment.task.train_data)))

    @tf.function
    def step() -> Any:
        return task.train_step(inputs, model, optimizer)[task.loss]

    device = "GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"
    float(step())  # reading the loss waits for the step
    known = tf.config.experimental
    try:
        known.reset_memory_stats(device)
    except ValueError:
        known = None
    start = time.perf_counter()
    for _ in range(STEPS):
        float(step())
    seconds = (time.perf_counter() - start) / STEPS
    return seconds, known and known.get_memory_info(device)["peak"] / 1e9


if __name__ == "__main__":
    run_command(main)
