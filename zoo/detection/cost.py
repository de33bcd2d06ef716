"""Parameters and operations of detectors: `python -m zoo.detection.cost NAME ...`."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from pydantic_settings import CliPositionalArg

from zoo.cli.run import run_command
from zoo.cli.settings import AnyPath, Settings, checked_by
from zoo.config.detection import STRIDE
from zoo.detection.coco import MAX_CATEGORY
from zoo.registry import find_model


class CostConfig(Settings, cli_prog_name="python -m zoo.detection.cost"):
    """Counts trainable parameters and floating-point operations of Mask R-CNN for one image.

    A step on shards (--dir) with boxes alone is that of Faster R-CNN.
    Operations are those of convolutions and products of the whole network, two for each
    multiply-accumulate as in the paper, with 1000 proposals and 100 objects. Examples:

      python -m zoo.detection.cost resnet_rs101_no_se lambda_resnet101
      python -m zoo.detection.cost lambda_resnet101 --image_size 256 --dir coco --batch_size 2
    """

    models: CliPositionalArg[list[Annotated[str, checked_by(find_model)]]]
    """Backbones, by their names: see python -m zoo.list."""
    image_size: int = Field(default=1024, ge=STRIDE, multiple_of=STRIDE)
    """Height and width in pixels."""
    categories: int = Field(default=90, ge=1, le=MAX_CATEGORY)
    """The last id of a category; that of COCO is 90."""
    dir: AnyPath | None = None
    """Folder of shards: also take the time and memory of a training step on their images, in
    float32."""
    batch_size: int = Field(default=2, ge=1)
    """Images of such a step."""


STEPS = 3  # that are timed, after one that is traced


class Step(NamedTuple):
    """A training step: its mean time, and the peak of TensorFlow's allocator, weights included.

    The latter is None where TensorFlow does not tell.
    """

    seconds: float
    peak_bytes: int | None


class Cost(NamedTuple):
    """Trainable parameters and floating-point operations of a part."""

    parameters: int
    flops: int


def main(arguments: Sequence[str]) -> None:
    """Builds the detectors and prints a table."""
    config = CostConfig.from_command_line(arguments)
    print(
        f"Mask R-CNN at {config.image_size} x {config.image_size}, {config.categories} categories"
    )
    heads = ["backbone", "parameters (M)", "of the backbone", "GFLOPs", "of the backbone"]
    heads += ["s / step", "GB"] if config.dir else []
    for row in (heads, ["---"] * len(heads)):
        print(f"| {' | '.join(row)} |")
    for name in config.models:
        parts = count(name, config.image_size, config.categories)
        parameters, flops = (sum(part) for part in zip(*parts.values(), strict=True))
        backbone = parts["backbone"]
        figures = [parameters / 1e6, backbone.parameters / 1e6, flops / 1e9, backbone.flops / 1e9]
        cells = [f"{figure:.2f}" for figure in figures]
        if config.dir is not None:
            step = time_step(name, config.image_size, config.dir, config.batch_size)
            memory = "-" if step.peak_bytes is None else f"{step.peak_bytes / 1e9:.2f}"
            cells += [f"{step.seconds:.2f}", memory]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def count(name: str, image_size: int = 1024, categories: int = 90) -> dict[str, Cost]:
    """Counts the FLOPs of a detector by part: backbone, pyramid, proposals, boxes, masks.

    Args:
        name: Of the backbone in the zoo.
        image_size: Height and width in pixels. Defaults to 1024.
        categories: The last id of a category. Defaults to 90, as COCO's.
    """
    from lambda_keras.applications import count_flops
    from zoo.config.detection import DetectionConfig
    from zoo.detection.experiment import create_experiment, create_task

    config = DetectionConfig.model_validate({"model": {"name": name, "image_size": image_size}})
    experiment = create_experiment(config, {categories: "last"})
    model, settings = create_task(experiment).build_model(), experiment.task.model
    sides = {
        level: image_size // 2**level for level in range(settings.min_level, settings.max_level + 1)
    }
    everywhere = sum(side**2 for side in sides.values())
    proposals = settings.roi_generator.test_num_proposals * settings.roi_aligner.crop_size**2
    objects = settings.detection_generator.max_num_detections
    objects *= settings.mask_roi_aligner.crop_size**2
    # Where every layer computes: positions of its inputs in case of masks, else of its outputs.
    places: dict[str, tuple[Any, Callable[[Any], float]]] = {
        "pyramid": (model.decoder, lambda layer: sides[int(layer.name.rpartition("_")[2])] ** 2),
        "proposals": (model.rpn_head, lambda layer: everywhere),
        "boxes": (
            model.detection_head[0],
            lambda layer: (
                proposals
                if layer.kernel.shape.rank == 4
                else settings.roi_generator.test_num_proposals
            ),
        ),
        # The last convolution comes after the transposed one, which doubles both sides.
        "masks": (
            model.mask_head,
            lambda layer: objects * (4 if layer.kernel.shape[0] == 1 else 1),
        ),
    }
    parts = {"backbone": Cost(_parameters(model.backbone), count_flops(model.backbone.features))}
    for part, (head, positions) in places.items():
        flops = sum(
            2 * layer.kernel.shape.num_elements() * positions(layer) for layer in _products(head)
        )
        parts[part] = Cost(_parameters(head), int(flops))
    return parts


def time_step(name: str, image_size: int, folder: Path, batch_size: int) -> Step:
    """Trains a detector for some steps on one batch.

    Args:
        name: Of the backbone in the zoo.
        image_size: Height and width in pixels.
        folder: Of shards.
        batch_size: Images of a step.
    """
    import tensorflow as tf

    from zoo.config.detection import DetectionConfig
    from zoo.detection.experiment import create_experiment, create_task
    from zoo.detection.shards import TRAIN, Dataset, check

    config = DetectionConfig.model_validate(
        {
            "model": {"name": name, "image_size": image_size},
            "data": {"dir": str(folder), "batch_size": batch_size, "shuffle_buffer": 1},
        }
    )
    dataset = Dataset.read(folder)
    check(folder, dataset, TRAIN)
    experiment = create_experiment(config, dataset.categories, dataset.masks)
    task = create_task(experiment)
    model = task.build_model()
    optimizer = task.create_optimizer(experiment.trainer.optimizer_config)
    inputs = next(iter(task.build_inputs(experiment.task.train_data)))

    @tf.function
    def step() -> Any:
        return task.train_step(inputs, model, optimizer)[task.loss]

    device = "GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"
    float(step())  # whoever reads the loss waits for it
    known = tf.config.experimental
    try:
        known.reset_memory_stats(device)
    except ValueError:
        known = None
    start = time.perf_counter()
    for _ in range(STEPS):
        float(step())
    seconds = (time.perf_counter() - start) / STEPS
    return Step(seconds, known and known.get_memory_info(device)["peak"])


def _parameters(part: Any) -> int:
    return sum(variable.shape.num_elements() for variable in part.trainable_variables)


def _products(head: Any) -> Iterator[Any]:
    """Yields the convolutions and dense layers of a part of tf_keras."""
    for layer in head._flatten_layers():
        if getattr(layer, "kernel", None) is not None:
            yield layer


if __name__ == "__main__":
    run_command(main)
