"""Evaluates a detector on test images: `python -m zoo.evaluate --run FOLDER`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from zoo.cli.model_options import PlaceOptions
from zoo.cli.run import BACKENDS, use_default_backend
from zoo.cli.settings import AnyPath, OutputFolder, Section
from zoo.config.detection import DetectionConfig
from zoo.run_folder import load_config

if TYPE_CHECKING:
    from zoo.detection.coco import Json
    from zoo.detection.detector import Detector
    from zoo.detection.report import Evaluation

GRID = 12  # best and worst images that are drawn


class ShardsConfig(Section):
    """Test images of a detector."""

    dir: AnyPath | None = None
    """Folder of shards with test images of the same categories; None: the run's own."""
    batch_size: int = Field(default=8, ge=1)
    """Images of a step."""


class EvaluateConfig(PlaceOptions, cli_prog_name="python -m zoo.evaluate"):
    """Measures the average precision of boxes and masks, overall and for each category.

    It is computed by pycocotools, in percent, and compared with Table 6 of the paper if that has
    the backbone. Pass --run for the detector of a finished run, or --model for one of zoo.publish,
    and --data.dir. Examples:

      python -m zoo.evaluate --run runs/shapes
      python -m zoo.evaluate --run runs/coco --data.dir gs://BUCKET/coco --output evaluation
      python -m zoo.evaluate --model hf://OWNER/NAME --data.dir coco
    """

    data: ShardsConfig = ShardsConfig()
    output: OutputFolder | None = None
    """Also write evaluation.json, detections.json in COCO's format, and best.png and worst.png
    here."""

    @property
    def folder(self) -> Path:
        """Folder of shards: `data.dir`, or the one of the run."""
        if self.data.dir is not None:
            return self.data.dir
        if self.run is None:
            raise ValueError("data.dir: expected a folder of shards, as --model has none")
        return load_config(self.run, DetectionConfig).data.dir


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then evaluates."""
    config = EvaluateConfig.from_command_line(arguments)
    use_default_backend(BACKENDS[:1])
    from zoo.detection import report

    detector, result, found, annotations = run(config)
    count = len(annotations["images"])
    title = f"{detector.title}, {count} images of {config.folder}"
    report.print_tables(result, detector.categories, detector.name, title)
    if config.output is not None:
        settings = config.model_dump(mode="json", exclude={"output"})
        report.write(result, found, detector.categories, settings, config.output)
        _write_pictures(config, detector, result, found, annotations)
        print(f"wrote {config.output / report.RESULTS} and pictures")
    print(f"{report.line(result.figures)} ({count} test images)")


def run(config: EvaluateConfig) -> tuple["Detector", "Evaluation", list["Json"], "Json"]:
    """Loads a detector, and evaluates it on shards of its categories.

    Returns:
        The detector, its evaluation, its detections, and the annotations.

    Raises:
        ValueError: If there is no such detector, or the images have other categories.
    """
    from rich.progress import track

    from zoo.detection import report, shards
    from zoo.detection.source import choose

    folder = config.folder
    dataset = shards.Dataset.read(folder)
    detector = choose(config).load()
    if dict(detector.categories) != dataset.categories:
        raise ValueError(
            "data.dir: expected the categories of the detector, "
            f"{list(detector.categories.values())[:5]}. "
            f"Received: {list(dataset.categories.values())[:5]}"
        )
    ids = shards.check(folder, dataset, shards.TEST, detector.image_size)
    annotations = shards.read_annotations(folder, dataset, ids)
    size = config.data.batch_size
    batches = detector.detect_shards(shards.pattern(folder, shards.TEST), size)
    steps = -(-dataset.val.images // size)
    found = [one for batch in track(batches, "Detecting", total=steps) for one in batch]
    result = report.evaluate(annotations, found, detector.masks and dataset.masks)
    return detector, result, found, annotations


def _write_pictures(
    config: EvaluateConfig,
    detector: "Detector",
    result: "Evaluation",
    found: Sequence["Json"],
    annotations: "Json",
) -> None:
    """Draws the worst and the best test images, by the F1 of their boxes."""
    from zoo.detection import shards
    from zoo.plots.detections import plot_detections

    output: Any = config.output
    truth = shards.by_image(annotations)
    order = sorted(result.by_image, key=lambda number: result.by_image[number])
    for name, numbers in (("worst", order[:GRID]), ("best", order[::-1][:GRID])):
        files = shards.pattern(config.folder, shards.TEST)
        images = shards.read_images(files, ids=set(numbers))
        plot_detections(
            [
                (
                    f"{truth[number][0]}: F1 {result.by_image[number]:.2f}",
                    images[number],
                    [one for one in found if one["image_id"] == number],
                    truth[number][1],
                )
                for number in numbers
            ],
            detector.categories,
            f"{detector.name}: the {name} test images",
            output / f"{name}.png",
        )
