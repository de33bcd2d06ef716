"""Measures how well a detector finds objects: `python -m zoo.evaluate --run FOLDER`."""

from collections.abc import Sequence

from pydantic import Field

from zoo.cli.run import BACKENDS, use_default_backend
from zoo.cli.settings import AnyPath, OutputFolder, Settings

PICTURES = 12  # best and worst images


class EvaluateConfig(Settings, cli_prog_name="python -m zoo.evaluate"):
    """Measures the average precision of boxes, and of masks, as a whole and for each category.

    It is computed by pycocotools, in percent, beside Table 6 of the paper where that has the
    backbone. Examples:

      python -m zoo.evaluate --run runs/shapes
      python -m zoo.evaluate --run runs/coco --dir gs://BUCKET/coco --output evaluation
    """

    config: AnyPath | None = Field(
        default=None, exclude=True, description="YAML file with these settings."
    )
    run: AnyPath = Field(description="Folder of a finished run, local or gs://.")
    dir: AnyPath | None = Field(
        default=None,
        description="Folder of shards with other test images of the same categories; None: the "
        "run's own.",
    )
    batch_size: int = Field(default=8, ge=1, description="Images of a step.")
    output: OutputFolder | None = Field(
        default=None,
        description="Also write evaluation.json, detections.json in COCO's format, and best.png "
        "and worst.png here.",
    )


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, then evaluates.

    Raises:
        ValueError: If there is no such run, or the images are of other categories.
    """
    settings = EvaluateConfig.from_command_line(arguments)
    use_default_backend(BACKENDS[:1])
    from rich.progress import track

    from zoo import run_folder
    from zoo.config.detection import DetectionConfig
    from zoo.detection import report, shards
    from zoo.detection.detector import Detector
    from zoo.plots.detections import plot_detections

    config = run_folder.read_config(settings.run, DetectionConfig)
    folder = settings.dir or config.data.dir
    dataset = shards.Dataset.read(folder)
    detector = Detector.from_run(settings.run)
    if dict(detector.categories) != dataset.categories:
        raise ValueError(
            f"dir: expected the categories of the run, {list(detector.categories.values())[:5]}. "
            f"Received: {list(dataset.categories.values())[:5]}"
        )
    ids = shards.check(folder, dataset, shards.TEST, detector.image_size)
    annotations = shards.read_annotations(folder, dataset, ids)
    masks = detector.masks and dataset.masks
    files = shards.pattern(folder, shards.TEST)
    batches = detector.detect_shards(files, settings.batch_size)
    steps = -(-dataset.val.images // settings.batch_size)
    found = [one for batch in track(batches, "Detecting", total=steps) for one in batch]
    result = report.evaluate(annotations, found, masks)
    title = f"{detector.title}, {dataset.val.images} images of {folder}"
    report.print_tables(result, detector.categories, detector.name, title)
    if settings.output is not None:
        written = settings.model_dump(mode="json", exclude={"output"})
        report.write(result, found, detector.categories, written, settings.output)
        truth = shards.by_image(annotations)
        order = sorted(result.by_image, key=lambda number: result.by_image[number])
        for name, numbers in (("worst", order[:PICTURES]), ("best", order[::-1][:PICTURES])):
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
                settings.output / f"{name}.png",
            )
        print(f"wrote {settings.output / report.RESULTS} and pictures")
    print(f"{report.line(result.figures)} ({dataset.val.images} test images)")
