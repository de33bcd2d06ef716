"""Files of a published detector."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lambda_keras.weights.hub import sha256
from zoo import model_card, run_folder
from zoo.cli.model_options import NETWORK
from zoo.config.detection import DetectionConfig
from zoo.detection.detector import Detector, load_metrics
from zoo.detection.source import DetectorDescription, Published, Run, detector_fields
from zoo.inference.source.published import WEIGHTS
from zoo.publish.folder import CARD, front_matter, license_field, started_from

USE = """```python
from zoo.api import load

detector = load({address!r})
detector("photo.jpg")  # objects with names, boxes in pixels and scores
```"""


def write_files(
    detector: Detector, source: Run, folder: Path, license: str | None, address: str
) -> None:
    """Writes the files of a detector; see `zoo.publish.folder.write`."""
    detector.save_weights(folder / WEIGHTS)
    run, origin = source.folder, source.card()
    config, metrics = run_folder.load_config(run, DetectionConfig), load_metrics(run)
    description = DetectorDescription(
        task="detection",
        model=detector.name,
        overrides=config.model.overrides,
        image_size=config.model.image_size,
        heads=config.model.heads,
        categories=dict(detector.categories),
        masks=detector.masks,
        test=metrics.test,
        test_images=metrics.test_images,
        trained_on=origin["Trained on"],
        license=license,
        sha256=sha256(folder / WEIGHTS),
    )
    (folder / NETWORK).write_text(description.to_json(), encoding="utf-8")
    model_card.write_labels(folder, detector.labels())
    fields = {
        **detector_fields(detector),
        **origin,
        "License": license_field(license),
        **started_from(config.model.weights),
    }
    precision = {"metric_type": "box AP", "metric_value": metrics.test.box.AP}
    model_card.write(
        folder / CARD,
        detector.title,
        fields,
        {"Use": USE.format(address=address)},
        front_matter(description, config.data.dir.name, "object-detection", **precision),
    )


def read(detector: Detector, folder: Path) -> Iterator[tuple[Any, bool]]:
    """Yields the model of the folder, and whether other attributes are equal."""
    found = Published(str(folder)).load()
    same = (found.title, found.image_size) == (detector.title, detector.image_size)
    yield found.model, same and dict(found.categories) == dict(detector.categories)
