"""Finds objects in images: `python -m zoo.predict --run FOLDER photo.jpg`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from pydantic_settings import CliPositionalArg

from zoo.cli.settings import AnyPath, OutputFile, Settings, named, quoted
from zoo.data.image_files import SUFFIXES, to_jpeg_or_png
from zoo.data.readable import check_readable
from zoo.errors import printable
from zoo.files import atomic_write
from zoo.inference.photos import check_replaces_none, find_photos

MOST = 100  # images on the picture


class PredictConfig(Settings, cli_prog_name="python -m zoo.predict"):
    """Finds objects in images, with boxes, and masks if the detector has them.

    Examples:
      python -m zoo.predict --run runs/shapes photo.jpg --output sheet.png
      python -m zoo.predict --run runs/shapes photos/ --output detections.json
    """

    config: AnyPath | None = Field(
        default=None, exclude=True, description="YAML file with these settings."
    )
    photos: CliPositionalArg[list[str]] = Field(
        description=f"Images ({', '.join(SUFFIXES)}) or folders of them."
    )
    run: AnyPath = Field(description="Folder of a finished run, local or gs://.")
    threshold: float = Field(
        default=0.5, ge=0, le=1, description="Score from which on objects are named and drawn."
    )
    output: Annotated[OutputFile, named(".png", ".json")] | None = Field(
        default=None,
        description="Also draw the images with their objects (.png), or write all objects in "
        "COCO's format of results (.json): image_id is the number of the image, from 1, "
        "file_name its name.",
    )


def main(arguments: Sequence[str]) -> None:
    """Reads the settings, checks the images, then asks the detector.

    Raises:
        ValueError: If there is no such run, or an image is missing or unreadable.
    """
    config = PredictConfig.from_command_line(quoted(arguments))
    photos = find_photos(config.photos)
    check_replaces_none(config.output, photos)
    as_picture = config.output is not None and config.output.suffix == ".png"
    if as_picture and len(photos) > MOST:
        raise ValueError(
            f"photos: expected at most {MOST} on a picture. Received: {len(photos)} (write .json)"
        )
    check_readable([str(photo) for photo in photos])
    from zoo.data.crops import decode
    from zoo.detection.detector import Detector
    from zoo.detection.shards import check_shape
    from zoo.errors import needs_extra

    with needs_extra("detection"):
        from PIL import Image

    detector = Detector.from_run(config.run)
    for photo in photos:
        with Image.open(photo) as file:
            width, height = file.size
        try:
            check_shape(height, width, detector.image_size)
        except ValueError as error:
            raise ValueError(f"photos: {printable(photo)}: {error}") from None
    drawn, results = [], []
    for number, photo in enumerate(photos, start=1):
        image: Any = decode(to_jpeg_or_png(photo.read_bytes()))
        found = detector.detect(image.numpy(), number)
        print(printable(photo))
        for one in found:
            if one["score"] >= config.threshold:
                left, top, width, height = one["bbox"]
                print(
                    f"{one['score']:8.1%}  {printable(detector.categories[one['category_id']])}, "
                    f"{width:.0f} x {height:.0f} pixels at ({left:.0f}, {top:.0f})"
                )
        print(flush=True)
        results += [{**one, "file_name": str(photo)} for one in found]
        if as_picture:
            drawn.append((photo.name, image.numpy(), found, None))
    if config.output is None:
        return
    if as_picture:
        from zoo.plots.detections import plot_detections

        title = f"{detector.name}: objects with a score from {config.threshold:.0%}"
        plot_detections(drawn, detector.categories, title, config.output, config.threshold, 2)
    else:
        _write_json(results, config.output)
    print(f"wrote {printable(config.output)}")


def _write_json(results: list[dict[str, Any]], path: Path) -> None:
    with atomic_write(path) as beside:
        # Of a name that is not UTF-8, JSON knows the bytes by the same escapes as Python.
        text = json.dumps(results, indent=1, ensure_ascii=False)
        beside.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
