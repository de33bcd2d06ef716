"""Detects objects in images: `python -m zoo.predict --run FOLDER photo.jpg`."""

from typing import Annotated

from pydantic import Field

from zoo.config.model_options import PlaceOptions
from zoo.data.readable import check_readable
from zoo.detection import objects
from zoo.errors import errors_of, printable
from zoo.fields import OutputFile, named
from zoo.inference.photos import Photos, check_replaces_none, find_photos


class PredictConfig(PlaceOptions):
    """Detects objects in images, with boxes, and masks if the detector predicts them.

    Examples:
      python -m zoo.predict --run runs/shapes photo.jpg --output detections.png
      python -m zoo.predict --run runs/shapes photos/ --output detections.json
      python -m zoo.predict --model hf://OWNER/NAME photo.jpg
    """

    photos: Photos
    threshold: float = Field(default=0.5, ge=0, le=1)
    """Minimum score of objects that are named and drawn."""
    output: Annotated[OutputFile, named(*objects.SUFFIXES)] | None = None
    """Also draw the images with their objects (.png), or write all objects in COCO's format of
    results (.json): image_id is the number of the image, from 1, file_name its name."""


def run(config: PredictConfig) -> None:
    """Checks the images, then runs the detector."""
    photos = find_photos(config.photos)
    check_replaces_none(config.output, photos)
    objects.check_output(config.output, photos)
    files = check_readable([str(photo) for photo in photos])
    from zoo.data.ahead import MOST_THREADS, Waiting, read_ahead
    from zoo.detection.detector import choose
    from zoo.detection.shards import check_shape
    from zoo.inference.images import read_pixels

    detector = choose(config).load()
    for file in files:
        with errors_of(f"photos: {printable(file.path)}"):
            check_shape(file.height, file.width, detector.image_size)
    results = []
    images = Waiting(read_ahead(read_pixels, photos, MOST_THREADS), MOST_THREADS)
    for number, (photo, image) in enumerate(zip(photos, images, strict=True), start=1):
        detections = detector(image, threshold=0)
        print(objects.describe(photo, detections, config.threshold), flush=True)
        results.append((photo, [{**detection, "image_id": number} for detection in detections]))
    if images.share is not None:
        print(images.report())
    if config.output is not None:
        objects.write(results, detector.name, config.threshold, config.output)
        print(f"wrote {printable(config.output)}")
