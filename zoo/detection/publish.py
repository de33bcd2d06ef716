"""Files of a published detector."""

from collections.abc import Iterator, Mapping
from importlib.resources import files
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
from zoo.publish.folder import Contents, Publisher
from zoo.run_folder import load_config


class DetectorPublisher(Publisher[Detector]):
    """The weights as safetensors."""

    task, library = "object-detection", "lambda_keras"  # Keras itself loads no detectors
    use = files("zoo.detection").joinpath("publish.md").read_text("utf-8")

    def write_weights(self, network: Detector, folder: Path) -> None:
        network.save_weights(folder / WEIGHTS)

    def contents(self, network: Detector, run: Path, common: Mapping[str, Any]) -> Contents:
        config, metrics = load_config(run, DetectionConfig), load_metrics(run)
        return Contents(
            description=DetectorDescription(
                task="detection",
                overrides=config.model.overrides,
                image_size=config.model.image_size,
                heads=config.model.heads,
                **network.data.model_dump(include=set(Labels.model_fields)),
                masks=network.masks,
                test=metrics.test,
                test_images=metrics.test_images,
                **common,
            ),
            title=network.title,
            labels=network.labels(),
            fields=detector_fields(network),
            started_from=config.model.weights,
            data=config.data.dir.name,
            metric=("box AP", metrics.test.box.AP),
        )

    def read(self, network: Detector, folder: Path) -> Iterator[tuple[Any, bool]]:
        loaded = Published(str(folder)).load()
        names = set(Labels.model_fields)
        actual, expected = (
            (detector.title, detector.image_size, detector.data.model_dump(include=names))
            for detector in (loaded, network)
        )
        yield loaded.model, actual == expected
