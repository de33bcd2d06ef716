"""Files of a published detector."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zoo.detection.config import DetectionConfig
from zoo.detection.detector import (
    Detector,
    DetectorDescription,
    Published,
    detector_fields,
    load_metrics,
)
from zoo.detection.shards import Labels
from zoo.inference.source.published import WEIGHTS
from zoo.publish.folder import Contents
from zoo.run_folder import load_config

TASK = "object-detection"


def write_weights(detector: Detector, folder: Path) -> None:
    """Writes the weights as safetensors."""
    detector.save_weights(folder / WEIGHTS)


def contents(detector: Detector, run: Path, common: Mapping[str, Any]) -> Contents:
    """Returns description and card; `common` has the fields of every task's description."""
    config, metrics = load_config(run, DetectionConfig), load_metrics(run)
    return Contents(
        description=DetectorDescription(
            task="detection",
            overrides=config.model.overrides,
            image_size=config.model.image_size,
            heads=config.model.heads,
            **detector.data.model_dump(include=set(Labels.model_fields)),
            masks=detector.masks,
            test=metrics.test,
            test_images=metrics.test_images,
            **common,
        ),
        title=detector.title,
        labels=detector.labels(),
        fields=detector_fields(detector),
        started_from=config.model.weights,
        data=config.data.dir.name,
        metric=("box AP", metrics.test.box.AP),
    )


def read(detector: Detector, folder: Path) -> Iterator[tuple[Any, bool]]:
    """Yields the model of the folder, and whether other attributes are equal."""
    found = Published(str(folder)).load()
    same = (found.title, found.image_size) == (detector.title, detector.image_size)
    yield (
        found.model,
        same
        and all(
            getattr(found.data, name) == getattr(detector.data, name)
            for name in Labels.model_fields
        ),
    )
