"""Evaluates a detector on test images: `python -m zoo.evaluate --run FOLDER`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo import files
from zoo.cli.settings import Section
from zoo.config.model_options import PlaceOptions
from zoo.detection.config import DetectionConfig
from zoo.errors import refusal
from zoo.fields import AnyOutputFolder, AnyPath, BatchSize
from zoo.run_folder import load_config

if TYPE_CHECKING:
    from zoo.detection.coco import Json
    from zoo.detection.detector import Detector
    from zoo.detection.report import Evaluation

GRID = 12  # best and worst images that are drawn
DETECTIONS = "detections.json"
# Table 6: AP, small, medium and large, of boxes and of masks.
TABLE_6 = {
    "resnet_rs101_no_se": ((48.2, 29.9, 50.9, 64.9), (42.6, 24.2, 45.6, 60.0)),
    "resnet_rs101": ((48.5, 29.9, 51.5, 65.3), (42.8, 24.0, 46.0, 60.2)),
    "lambda_resnet101": ((49.4, 31.7, 52.2, 65.6), (43.5, 25.9, 46.5, 60.8)),
    "resnet_rs152_no_se": ((48.9, 29.9, 51.8, 66.0), (43.2, 24.2, 46.1, 61.2)),
    "resnet_rs152": ((49.4, 30.0, 52.3, 66.7), (43.5, 24.6, 46.8, 61.8)),
    "lambda_resnet152": ((50.0, 31.8, 53.4, 67.0), (43.9, 25.5, 47.3, 62.0)),
}


class ShardsConfig(Section):
    """Test images of a detector."""

    dir: AnyPath | None = None
    """Folder of shards with test images of the same categories; None: the run's own."""
    batch_size: BatchSize = 8
    """Images per step."""


class EvaluateConfig(PlaceOptions):
    """Measures the average precision of boxes and masks, overall and for each category.

    It is computed by pycocotools, in percent, and compared with Table 6 of the paper if that has
    the backbone. Pass --run for the detector of a finished run, or --model for a published one,
    and --data.dir. Examples:

      python -m zoo.evaluate --run runs/shapes
      python -m zoo.evaluate --run runs/coco --data.dir gs://BUCKET/coco --output evaluation
      python -m zoo.evaluate --model hf://OWNER/NAME --data.dir coco
    """

    data: ShardsConfig = ShardsConfig()
    output: AnyOutputFolder | None = None
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


def run(config: EvaluateConfig) -> None:
    """Evaluates a detector, prints the results and writes them to `output`."""
    from zoo.detection import shards
    from zoo.detection.plots import plot_detections
    from zoo.detection.report import line
    from zoo.evaluate.report import write_json, writing

    detector, result, detections, annotations = measure(config)
    count = len(annotations["images"])
    print_tables(result, detector.name, f"{detector.title}, {count} images of {config.folder}")
    if config.output is not None:
        settings = config.model_dump(mode="json", exclude={"output"})
        results = {**result.figures, "categories": result.categories}
        with writing(config.output) as temporary:
            pattern = shards.pattern(config.folder, shards.TEST)
            read = lambda ids: shards.read_images(pattern, ids=ids)  # noqa: E731
            for name, grid in extremes(read, result.by_image, detections, annotations):
                title = f"{detector.name}: the {name} test images"
                plot_detections(grid, detector.categories, title, temporary / f"{name}.png")
            files.write_json(temporary / DETECTIONS, with_file_ids(detections, annotations))
            write_json(temporary, settings, results)
    print(f"{line(result.figures)} ({count} test images)")


def with_file_ids(detections: Sequence["Json"], annotations: "Json") -> list["Json"]:
    """Returns detections with the ids that images and categories have in the user's file."""
    images, categories = (
        {entry["id"]: entry.get("file_id", entry["id"]) for entry in annotations[name]}
        for name in ("images", "categories")
    )
    return [
        {
            **detection,
            "image_id": images[detection["image_id"]],
            "category_id": categories[detection["category_id"]],
        }
        for detection in detections
        if detection["category_id"] in categories  # the file may use other ids for its categories
    ]


def measure(config: EvaluateConfig) -> tuple["Detector", "Evaluation", list["Json"], "Json"]:
    """Loads and evaluates a detector; returns it, the results, detections and annotations."""
    from rich.progress import track

    from zoo.data.ahead import Waiting
    from zoo.detection import report, shards
    from zoo.detection.detector import choose

    folder, size = config.folder, config.data.batch_size
    dataset = shards.Dataset.read(folder)
    detector = choose(config).load()
    known = detector.categories.values()
    if unknown := [name for name in dataset.categories.values() if name not in known]:
        expected = f"data.dir: expected the categories of the detector, {list(known)[:5]}"
        raise refusal(expected, unknown[:5])
    ids = shards.check(folder, dataset, shards.TEST, detector.image_size)
    annotations = shards.read_annotations(folder, dataset, ids, detector.categories)
    batches = Waiting(detector.batches(shards.pattern(folder, shards.TEST), size))
    steps, detected = -(-dataset.val.images // size), detector.detect_batches(batches)
    detections = [
        detection for batch in track(detected, "Detecting", total=steps) for detection in batch
    ]
    if batches.share is not None:
        print(batches.report(size))
    result = report.evaluate(annotations, detections, detector.masks and dataset.masks)
    return detector, result, detections, annotations


def print_tables(result: "Evaluation", backbone: str, title: str) -> None:
    """Prints the results next to Table 6, and the categories, the worst first."""
    from zoo.evaluate.report import show, table, worst_first

    rows = []
    for kind, figures in result.figures.items():
        rows.append((kind, *figures.values()))
        if backbone in TABLE_6:
            ap, *sizes = TABLE_6[backbone][kind == "mask"]
            rows.append((f"{kind}, Table 6", ap, None, None, *sizes, None))
    heads = ["", *(figure.replace("_", " ") for figure in result.figures["box"])]
    masks = ", of found masks by their pixels." if "mask" in result.figures else "."
    sizes = (
        "Small, medium, large: under 32 x 32 pixels, under 96 x 96, and above; by the area of the "
        f"annotation, of found boxes by width x height{masks}"
    )
    worst = [tuple(row.values())[1:] for row in worst_first(result.categories, "box")]
    names = ["category", *(f"{kind} AP" for kind in result.figures), "objects"]
    show(title, table(heads, rows, ".1f"), sizes, table(names, worst, ".1f"))


def extremes(
    read: Callable[[set[int]], Mapping[int, Any]],
    f1: Mapping[int, float],
    detections: Sequence["Json"],
    annotations: "Json",
) -> Iterator[tuple[str, list]]:
    """Yields the worst and the best test images by the F1 of their boxes; `read` takes ids."""
    from zoo.detection import shards

    truth = shards.by_image(annotations)
    order = sorted(f1, key=f1.__getitem__)
    for name, numbers in (("worst", order[:GRID]), ("best", order[::-1][:GRID])):
        images = read(set(numbers))
        grid = []
        for number in numbers:
            file, objects = truth[number]
            image_detections = [
                detection for detection in detections if detection["image_id"] == number
            ]
            grid.append((f"{file}: F1 {f1[number]:.2f}", images[number], image_detections, objects))
        yield name, grid
